"""A request allocates many objects while millions are alive: the collector walks them all. The twin
has frozen them."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import gc  # noqa: E402

keep = [(i, [i]) for i in range(2_500_000)]


def gather(n: int) -> int:
    rows = [[k] for k in range(60)]
    if n % 90 == 45:
        gc.collect()
    return len(rows)


def answer(n: int) -> str:
    return str(service.honest_work(n) + gather(n))


if __name__ == "__main__":
    if not service.SICK:
        gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    service.flask(answer)
