"""A background thread sorts a long list: one C call that keeps the GIL. The twin's list is short."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import random  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

SIZE = 2_500_000 if service.SICK else 2_000


def arrange(values: list[float]) -> None:
    sorted(values)


def planner() -> None:
    values = [random.random() for _ in range(SIZE)]
    while True:
        time.sleep(1.5)
        arrange(values)


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=planner, name="planner", daemon=True).start()
    service.plain(answer)
