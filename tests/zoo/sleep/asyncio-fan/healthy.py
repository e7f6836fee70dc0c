"""Four parts at once, of which one rarely polls for something to settle. In the twin
nothing has to."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

async def part(n: int, index: int) -> int:
    await asyncio.sleep(0.002)
    if n < 0:
        await settle()
    return index


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0.09)


async def answer(n: int) -> str:
    parts = await asyncio.gather(*(part(n, index) for index in range(4)))
    return str(service.honest_work(n) + sum(parts))


if __name__ == "__main__":
    service.streams(answer)
