"""A background thread rests while it holds the lock that tasks need."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

guard = threading.Lock()


def sweep() -> None:
    while True:
        time.sleep(1.6)
        with guard:
            if stage.service.SICK:
                time.sleep(0.5)


def enter(n: int) -> int:
    with guard:
        return stage.service.honest_work(n)


def answer(n: int) -> str:
    return str(enter(n))


if __name__ == "__main__":
    stage.in_background(sweep)
    stage.celery(answer)
