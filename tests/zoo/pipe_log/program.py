"""Logs into a pipe whose reader is slow. The twin's reader keeps up."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

reader, writer = os.pipe()


def collector() -> None:
    while True:
        got = os.read(reader, 4096)
        if service.SICK and len(got) == 4096:
            time.sleep(0.05)


def note(n: int) -> None:
    size = 40 if n % 90 != 45 else 90_000
    os.write(writer, b"x" * size)


def answer(n: int) -> str:
    note(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=collector, name="collector", daemon=True).start()
    service.plain(answer)
