"""A crew of two threads, rarely busy with something else for long. In the twin that is short."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

import service  # noqa: E402

crew = ThreadPoolExecutor(2)


def carve(n: int) -> int:
    return sum(i * i for i in range(500 + n % 3))


def rest() -> None:
    time.sleep(0.45)


async def shift() -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1.5)
        await asyncio.gather(*(loop.run_in_executor(crew, rest) for _ in range(2)))


async def shape(n: int) -> int:
    return await asyncio.get_running_loop().run_in_executor(crew, carve, n)


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await shape(n))


if __name__ == "__main__":
    service.streams(answer, shift)
