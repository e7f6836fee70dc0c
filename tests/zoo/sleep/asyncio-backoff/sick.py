"""A store that rarely refuses, and a coroutine that tries again, each time after twice the pause.
In the twin the store never refuses."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

REFUSALS = 4


def stow(n: int, attempt: int) -> bool:
    return n % 80 != 40 or attempt >= REFUSALS


async def persist(n: int) -> int:
    step = 0.03
    for attempt in range(8):
        if stow(n, attempt):
            return attempt
        await asyncio.sleep(step)
        step *= 2
    raise OSError("the store is full")


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await persist(n))


if __name__ == "__main__":
    service.streams(answer)
