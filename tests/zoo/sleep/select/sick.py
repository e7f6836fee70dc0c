"""Waits through select() on nothing. The twin waits for no time."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import select  # noqa: E402

import service  # noqa: E402


def settle() -> None:
    select.select([], [], [], 0.5)


def answer(n: int) -> str:
    if n % 80 == 40:
        settle()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
