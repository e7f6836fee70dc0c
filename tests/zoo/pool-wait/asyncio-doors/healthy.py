"""A semaphore for three, all of which rarely linger in it. The twin's pass through."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

doors = asyncio.Semaphore(3)


async def pass_through(n: int) -> int:
    async with doors:
        await asyncio.sleep(0.001)
        return n


async def linger() -> None:
    async with doors:
        await asyncio.sleep(0.001)


async def crowd() -> None:
    while True:
        await asyncio.sleep(1.5)
        await asyncio.gather(*(linger() for _ in range(3)))


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await pass_through(n))


if __name__ == "__main__":
    service.streams(answer, crowd)
