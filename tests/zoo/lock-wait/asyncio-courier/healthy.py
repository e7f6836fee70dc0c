"""A task that rarely keeps a lock while it waits for something else. The twin waits first."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

guard = asyncio.Lock()


async def consult() -> None:
    await asyncio.sleep(0.45)


async def courier() -> None:
    while True:
        await asyncio.sleep(1.6)
        await consult()
        async with guard:
            pass


async def stamp(n: int) -> int:
    async with guard:
        return n * 2


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await stamp(n))


if __name__ == "__main__":
    service.streams(answer, courier)
