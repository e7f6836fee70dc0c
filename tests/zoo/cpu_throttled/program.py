"""A control group gives the service an eighth of a CPU, which is enough but for some requests. The
twin has no quota."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import time  # noqa: E402


def tally(seconds: float) -> int:
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        total += service.honest_work(total)
    return total


def answer(n: int) -> str:
    return str(tally(0.08 if n % 30 == 15 else 0.0))


if __name__ == "__main__":
    service.plain(answer)
