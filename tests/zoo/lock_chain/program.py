"""A request waits for a lock whose holder waits for another lock, whose holder pauses. The twin's
holder pauses first."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

first, second = threading.Lock(), threading.Lock()


def linger() -> None:
    time.sleep(0.6)


def archivist() -> None:
    while True:
        time.sleep(1.7)
        if not service.SICK:
            linger()
        with second:
            if service.SICK:
                linger()


def porter() -> None:
    while True:
        time.sleep(0.05)
        with first:
            with second:
                pass


def enter(n: int) -> int:
    with first:
        return n


def answer(n: int) -> str:
    return str(enter(n) + service.honest_work(n))


if __name__ == "__main__":
    for work in (archivist, porter):
        threading.Thread(target=work, name=work.__name__, daemon=True).start()
    service.plain(answer)
