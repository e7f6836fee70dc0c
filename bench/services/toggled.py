"""The cost of recording for a request: one server under `dashcam run`, recording on and off in
turn.

Servers differ from one another by some percent, since the memory of each lies elsewhere. Here the
same threads of one server answer a thousand requests with recording on (`dashcam set PID on`) and
then off, again and again. CPU time is that of its threads by the kernel's count, without dashcam's
threads. The parts that remain while off are not in the figure: the wrappers around the application
(see bench/python/wsgi.py), and the kernel's switch records, if on. Beside it the clients' figures:
p99.9 of all requests of either kind, and what recording adds to it, with the interval of nineteen
of twenty resamplings of the pairs. Needs what run.py needs.

    python bench/services/toggled.py [--quick]
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import run
from clients import Clients

@dataclass
class Turn:
    """us of CPU for each request, the service's and dashcam's; ms that each request took."""

    own: float
    ours: float
    took: list[float]

    def __post_init__(self) -> None:
        self.requests = len(self.took)
        self.slowest = sorted(self.took)[-max(1, self.requests // 4) :]


def cpu_ns(pid: int) -> tuple[int, int]:
    """CPU time of a process's threads so far: the service's, and dashcam's."""
    sums = [0, 0]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text(encoding="utf-8", errors="replace")
            spent = int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except OSError:
            continue  # it ended
        sums[name.startswith("dashcam-")] += spent
    return sums[0], sums[1]


def turn(clients: Clients, pid: int, state: str, requests: int) -> Turn:
    """That many requests in one state."""
    subprocess.run([run.BIN / "dashcam", "set", str(pid), state], check=True, capture_output=True)
    clients.ask(requests // 8)
    before = cpu_ns(pid)
    took = clients.ask(requests)
    after = cpu_ns(pid)
    return Turn((after[0] - before[0]) / requests / 1e3, (after[1] - before[1]) / requests / 1e3, took)


def tail(turns: Sequence[Turn]) -> float:
    """p99.9 of all their requests, ms."""
    # The slowest quarter of a turn: a turn may have more than its share of the slowest thousandth.
    slowest = sorted(ms for turn in turns for ms in turn.slowest)
    requests = sum(turn.requests for turn in turns)
    return slowest[-max(1, requests // 1000)]


def added(found: dict[str, list[Turn]]) -> tuple[float, float]:
    """The middle nineteen of twenty values for what recording adds to p99.9, ms, by resampling the
    pairs.
    """
    dice, differences = random.Random(1), []
    pairs = range(len(found["on"]))
    for _ in range(2000):
        drawn = dice.choices(pairs, k=len(pairs))
        on, off = ([found[state][pair] for pair in drawn] for state in ("on", "off"))
        differences.append(tail(on) - tail(off))
    differences.sort()
    return differences[50], differences[-51]


def show(service: str, variant: str, pairs: int, requests: int, collector: run.Collector) -> None:
    """Measures one service and prints a row."""
    server = run.Server(service, variant, collector)
    try:
        workers = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True).stdout.split()
        pid = int(workers[0]) if workers else server.process.pid
        clients = Clients(server.port)
        clients.ask(4 * requests)
        found: dict[str, list[Turn]] = {"on": [], "off": []}
        for pair in range(pairs):
            for state in ("on", "off") if pair % 2 else ("off", "on"):
                found[state].append(turn(clients, pid, state, requests))
        clients.close()
    finally:
        server.stop()
    ratios = sorted(on.own / off.own for on, off in zip(found["on"], found["off"]))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = (ratios[min(max(0, round(len(ratios) / 2 + at)), len(ratios) - 1)] for at in (-reach, reach))
    on, off = (statistics.median(turn.own for turn in found[state]) for state in ("on", "off"))
    ours = statistics.median(turn.ours for turn in found["on"])
    least, most = added(found)
    seen = f"{tail(found['on']):>8.2f}{tail(found['off']):>8.2f}  ({least:+.2f} to {most:+.2f})"
    print(f"{service:9}{variant:24}{on:>9.0f}{off:>9.0f}{statistics.median(ratios):>9.1%}  ({low:.1%} to {high:.1%})"
          f"{ours:>9.1f}{seen}", flush=True)


def main() -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {int(run.LOAD_CPU)})
    pairs, requests = (10, 500) if "--quick" in sys.argv else (120, 1000)
    print(f"one server, recording on and off in turn, {pairs} pairs of {requests} requests; us of CPU a request, "
          f"p99.9 of its time in ms")
    print(f"{'':33}{'on':>9}{'off':>9}{'on/off':>9}{'95 % of the median':>20}{'ours':>9}{'p99.9':>8}{'off':>8}  added")
    with run.Collector() as collector:
        for service in run.SERVICES:
            for variant in ("dashcam", "dashcam, switches off"):
                show(service, variant, pairs, requests, collector)


if __name__ == "__main__":
    main()
