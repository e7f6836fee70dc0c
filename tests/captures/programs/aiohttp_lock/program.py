"""A background task rests while it holds the lock that requests need."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import asyncio  # noqa: E402

guard = asyncio.Lock()


async def sweep() -> None:
    while True:
        await asyncio.sleep(1.6)
        async with guard:
            if stage.service.SICK:
                await asyncio.sleep(0.5)


async def enter(n: int) -> int:
    async with guard:
        return stage.service.honest_work(n)


async def answer(n: int) -> str:
    return str(await enter(n))


if __name__ == "__main__":
    stage.aiohttp(answer, sweep)
