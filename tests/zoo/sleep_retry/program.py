"""A retry with growing pauses, made with select. The twin succeeds at once."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import select  # noqa: E402


def attempt(n: int, k: int) -> bool:
    return not (service.SICK and n % 80 == 30) or k == 4


def insist(n: int) -> int:
    for k in range(5):
        if attempt(n, k):
            return k
        select.select([], [], [], 0.04 * 2**k)
    return -1


def answer(n: int) -> str:
    return str(service.honest_work(n) + insist(n))


if __name__ == "__main__":
    service.plain(answer)
