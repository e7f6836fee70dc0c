"""Sorting by a key that is computed anew for each of many names, on a rare page. The twin ranks
the hundred names of the page."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import service  # noqa: E402

names = [f"runner {i * 7919 % 100003}" for i in range(50_000)]


def rate(name: str) -> int:
    score = 0
    for letter in name * 20:
        score += ord(letter) * 31
    return score


def podium(names: list[str]) -> str:
    return sorted(names, key=rate)[0]


def answer(n: int) -> str:
    field = names[:50_000] if n % 70 == 35 else names[:100]
    return f"{service.honest_work(n)} {podium(field)}"


if __name__ == "__main__":
    service.reference(answer)
