"""Parcels go down a chute that holds four; who empties it rarely rests. In the twin it hardly does."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

chute: asyncio.Queue[int] = asyncio.Queue(4)


async def shift() -> None:
    count = 0
    while True:
        await chute.get()
        count += 1
        if count % 90 == 0:
            await asyncio.sleep(0.001)


async def drop(n: int) -> None:
    await chute.put(n)


async def answer(n: int) -> str:
    await drop(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.streams(answer, shift)
