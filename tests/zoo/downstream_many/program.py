"""A rare request asks its peer a hundred times. The twin asks once."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import socket  # noqa: E402
import time  # noqa: E402

door = socket.create_server(("127.0.0.1", 0))


def peer() -> None:
    while True:
        line, _ = door.accept()
        with line:
            while line.recv(1):
                time.sleep(0.004)
                line.send(b"y")


def ask(times: int) -> None:
    with socket.create_connection(door.getsockname()) as line:
        for _ in range(times):
            line.send(b"x")
            line.recv(1)


def answer(n: int) -> str:
    if n % 90 == 45:
        ask(90 if service.SICK else 1)
    return str(service.honest_work(n))

if __name__ == "__main__":
    if os.fork() == 0:
        peer()
    service.plain(answer)
