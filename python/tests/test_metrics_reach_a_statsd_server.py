"""Values that Python counts arrive at a StatsD server, each once; a missing server does no harm."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import limited
from conftest import PATIENCE_S

PROGRAM = """
import json, os, sys, threading
import dashcam

dashcam.start(out=sys.argv[1], service="till")
handle = dashcam.counter("orders", tags={"shop": "a"})

def sell():
    for _ in range(1000):
        handle.inc()
        dashcam.count("visits", 2)

threads = [threading.Thread(target=sell) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
dashcam.gauge("queue", 7)
dashcam.timing("answer", 12.5)
pid = os.fork()
if pid == 0:
    dashcam.count("visits", 5)
    dashcam.flush()
    dashcam.stop()
    os._exit(0)
# Where nobody listens each waits its whole time: both at once.
flushed = dashcam.flush()
os.waitpid(pid, 0)
print(json.dumps({"flushed": flushed, "statsd": dashcam.status()["statsd"]}))
"""


class Server:
    """A UDP port that keeps every line."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)
        self.port = self.socket.getsockname()[1]
        self.lines: "list[str]" = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self) -> None:
        while True:
            try:
                self.lines += self.socket.recv(65536).decode().split("\n")
            except socket.timeout:
                if self.done.is_set():
                    return

    def end(self) -> "list[str]":
        self.done.set()
        self.thread.join()
        self.socket.close()
        return [line for line in self.lines if line]


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A UDP port that refuses what is sent to it. A socket has it, so that no server of another test
    gets it; the socket is connected to itself, and takes nothing from others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        held.connect(held.getsockname())
        yield int(held.getsockname()[1])


def run(tmp_path: Path, port: int) -> "dict[str, object]":
    env = {**os.environ, "DASHCAM_STATSD": f"udp://127.0.0.1:{port}"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = limited.run(command, PATIENCE_S, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert isinstance(reported, dict)
    return reported


def total(lines: "list[str]", name: str) -> int:
    values = [line.split("|")[0].split(":")[1] for line in lines if line.startswith(name + ":")]
    return sum(int(value) for value in values)


def test_each_count_arrives_once(tmp_path: Path) -> None:
    server = Server()
    try:
        reported = run(tmp_path, server.port)
    finally:
        lines = server.end()
    assert reported["flushed"] is True
    assert total(lines, "orders") == 4000
    assert total(lines, "visits") == 8005, "the child's five too, and nothing of its parent's twice"
    assert all("|#shop:a" in line for line in lines if line.startswith("orders:"))
    assert any(line.startswith("queue:7|g") for line in lines)
    assert any(line.startswith("answer:12.5|ms") for line in lines)


def test_nobody_listens(tmp_path: Path) -> None:
    with deaf_port() as port:
        reported = run(tmp_path, port)
    books = reported["statsd"]
    assert isinstance(books, dict)
    lost = sum(books["dropped_lines"].values())
    assert books["lines"] == books["sent_lines"] + books["waiting_lines"] + lost
    assert books["lines"] >= 4
