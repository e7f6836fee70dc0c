"""Another request keeps an RLock, taken by hand, while it waits. The twin waits outside."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

guard = threading.RLock()


def ledger(n: int) -> None:
    guard.acquire()
    try:
        if service.SICK and n % 100 == 50:
            settle()
    finally:
        guard.release()


def settle() -> None:
    time.sleep(0.6)


def answer(n: int) -> str:
    if n % 100 == 50 and not service.SICK:
        time.sleep(0.002)
    ledger(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.gunicorn(answer)
