"""Many threads queue for a lock that each holds for a moment only. The twin's threads need no lock."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import contextlib  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

gate = threading.Lock()


def enter(n: int) -> None:
    with gate if service.SICK else contextlib.nullcontext():
        time.sleep(0.006)


def crowd(n: int) -> None:
    def often() -> None:
        for i in range(8):
            enter(i)

    for _ in range(12):
        threading.Thread(target=often).start()


def answer(n: int) -> str:
    if n % 90 == 45:
        crowd(n)
        for i in range(4):
            enter(i)
    return str(service.honest_work(n))

if __name__ == "__main__":
    service.plain(answer)
