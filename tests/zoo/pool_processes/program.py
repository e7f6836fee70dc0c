"""Work for two processes: now and then it is long, and others queue behind it. The twin's is short."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import multiprocessing  # noqa: E402
import time  # noqa: E402

workers = None


def toil(seconds: float) -> None:
    time.sleep(seconds)


def delegate(seconds: float) -> None:
    workers.apply(toil, (seconds,))


def answer(n: int) -> str:
    if n % 10 == 0:
        delegate(0.4 if service.SICK and n % 80 == 40 else 0.001)
    return str(service.honest_work(n))

if __name__ == "__main__":
    workers = multiprocessing.get_context("fork").Pool(2)
    service.plain(answer)
