"""Things handed out from a queue; rarely one task takes all of them for long. The twin brings them
back at once."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

SIZE = 2
boats: asyncio.Queue[int] = asyncio.Queue()


async def row(n: int) -> int:
    boat = await boats.get()
    try:
        await asyncio.sleep(0.001)
        return boat
    finally:
        boats.put_nowait(boat)


async def excursion() -> None:
    boats.put_nowait(0)
    boats.put_nowait(1)
    while True:
        await asyncio.sleep(1.5)
        taken = [await boats.get() for _ in range(SIZE)]
        await asyncio.sleep(0.001)
        for boat in taken:
            boats.put_nowait(boat)


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await row(n))


if __name__ == "__main__":
    service.streams(answer, excursion)
