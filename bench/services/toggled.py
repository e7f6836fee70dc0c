"""What recording costs a request: one server under `dashcam run`, recording on and off in turn.

Servers differ from one another by some percent, since the memory of each lies elsewhere; here the same
threads of one server answer some hundred requests with recording on (`dashcam set PID on`) and then off,
again and again. CPU time is that of its threads by the kernel's count, ours apart. What stays in place while
off is not in the figure: the wrappers around the application (see bench/python/wsgi.py), and the kernel's
switch records, if on.
Needs what run.py needs.

    python bench/services/toggled.py [--quick]
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
from pathlib import Path

import run

REQUEST = b"GET /price/5 HTTP/1.1\r\nHost: bench\r\n\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def load(port: int, requests: int) -> None:
    """Asks so often, over CONNECTIONS connections at once."""
    with selectors.DefaultSelector() as selector:
        for _ in range(run.CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            selector.register(connection, selectors.EVENT_READ, bytearray())
            connection.sendall(REQUEST)
        done = 0
        while done < requests:
            for key, _ in selector.select():
                connection, got = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                got += connection.recv(65536) or b"\r\n\r\ncontent-length: 0"
                head, _, body = bytes(got).partition(b"\r\n\r\n")
                length = LENGTH.search(head)
                if length and len(body) >= int(length[1]):
                    got.clear()
                    done += 1
                    connection.sendall(REQUEST)
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]


def cpu_ns(pid: int) -> tuple[int, int]:
    """CPU time of a process's threads so far: the service's, and ours."""
    sums = [0, 0]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text(encoding="utf-8", errors="replace")
            spent = int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except OSError:
            continue  # it ended
        sums[name.startswith("dashcam-")] += spent
    return sums[0], sums[1]


def turn(server: run.Server, pid: int, state: str, requests: int) -> tuple[float, float]:
    """us of CPU a request: the service's, and ours."""
    subprocess.run([run.BIN / "dashcam", "set", str(pid), state], check=True, stdout=subprocess.DEVNULL)
    load(server.port, requests // 8)
    before = cpu_ns(pid)
    load(server.port, requests)
    after = cpu_ns(pid)
    return (after[0] - before[0]) / requests / 1e3, (after[1] - before[1]) / requests / 1e3


def show(service: str, variant: str, pairs: int, requests: int, collector: run.Collector) -> None:
    """Measures one service and prints a row."""
    server = run.Server(service, variant, collector)
    try:
        workers = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True).stdout.split()
        pid = int(workers[0]) if workers else server.process.pid
        load(server.port, 2 * requests)
        found: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
        for pair in range(pairs):
            for state in ("on", "off") if pair % 2 else ("off", "on"):
                found[state].append(turn(server, pid, state, requests))
    finally:
        server.stop()
    ratios = sorted(on[0] / off[0] for on, off in zip(found["on"], found["off"]))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = (ratios[min(max(0, round(len(ratios) / 2 + at)), len(ratios) - 1)] for at in (-reach, reach))
    on, off = (statistics.median(row[0] for row in found[state]) for state in ("on", "off"))
    ours = statistics.median(row[1] for row in found["on"])
    print(f"{service:9}{variant:24}{on:>9.0f}{off:>9.0f}{statistics.median(ratios):>9.1%}  ({low:.1%} to {high:.1%})"
          f"{ours:>9.1f}", flush=True)


def main() -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {int(run.LOAD_CPU)})
    pairs, requests = (10, 200) if "--quick" in sys.argv else (60, 400)
    print(f"one server, recording on and off in turn, {pairs} pairs of {requests} requests; us of CPU a request")
    print(f"{'':33}{'on':>9}{'off':>9}{'on/off':>9}{'95 % of the median':>20}{'ours':>9}")
    with run.Collector() as collector:
        for service in run.SERVICES:
            for variant in ("dashcam", "dashcam, switches off"):
                show(service, variant, pairs, requests, collector)


if __name__ == "__main__":
    main()
