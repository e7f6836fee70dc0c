"""Requests hand work to a pool of two, which someone else sometimes fills. In the twin the others
have a pool of their own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

import service  # noqa: E402

crew = ThreadPoolExecutor(2)
night_crew = crew


def chew() -> None:
    time.sleep(0.5)


def feeder() -> None:
    while True:
        time.sleep(2.4)
        for _ in range(2):
            night_crew.submit(chew)


def solve(n: int) -> int:
    return crew.submit(service.honest_work, n).result()


def answer(n: int) -> str:
    return str(solve(n))


if __name__ == "__main__":
    threading.Thread(target=feeder, daemon=True).start()
    service.flask(answer)
