"""A worker's jobs need a lock that one of its own threads keeps now and then while it waits. The twin
waits first and takes the lock afterwards."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

till = threading.Lock()
sums: dict[int, int] = {}


def audit() -> None:
    time.sleep(0.5)


def clerk() -> None:
    while True:
        time.sleep(1.7)
        if not service.SICK:
            audit()
        with till:
            if service.SICK:
                audit()
            sums.clear()


def credit(n: int) -> int:
    with till:
        sums[n % 20] = sums.get(n % 20, 0) + n
        return sums[n % 20]


def answer(n: int) -> str:
    return str(service.honest_work(n) + credit(n))


if __name__ == "__main__":
    threading.Thread(target=clerk, name="clerk", daemon=True).start()
    service.worker(answer)
