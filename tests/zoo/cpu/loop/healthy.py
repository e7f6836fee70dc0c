"""A rare input takes the long way: a loop of interpreted steps. The twin has the formula."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import service  # noqa: E402


def triangle(size: int) -> int:
    return size * (size + 1) // 2


def answer(n: int) -> str:
    return str(service.honest_work(n) + triangle(16_000_000 if n % 90 == 45 else 900))


if __name__ == "__main__":
    service.flask(answer)
