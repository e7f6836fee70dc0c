"""A rare input makes a pure-Python loop long. The twin's input is bounded."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402


def weight(i: int) -> int:
    return (i * 31) % 97


def mosaic(size: int) -> int:
    total = 0
    for i in range(size):
        total += weight(i)
    return total


def answer(n: int) -> str:
    return str(mosaic(14_000_000 if service.SICK and n % 150 == 70 else 2_000))


if __name__ == "__main__":
    service.reference(answer)
