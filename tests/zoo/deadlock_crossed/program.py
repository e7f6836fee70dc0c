"""Two threads take two locks in opposite order, with a time limit. The twin takes them in the same
order."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

left, right = threading.Lock(), threading.Lock()


def outward() -> None:
    first, second = (right, left) if service.SICK else (left, right)
    with first:
        time.sleep(0.03)
        if second.acquire(timeout=0.6):
            second.release()


def inward() -> None:
    with left:
        time.sleep(0.03)
        if right.acquire(timeout=0.6):
            right.release()


def answer(n: int) -> str:
    if n % 100 == 50:
        other = threading.Thread(target=outward)
        other.start()
        inward()
        other.join()
    return str(service.honest_work(n))

if __name__ == "__main__":
    service.plain(answer)
