"""Two kilns in processes of their own, rarely busy with something else for long. In the twin that is
short."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402
import multiprocessing  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ProcessPoolExecutor  # noqa: E402

import service  # noqa: E402

kilns = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))


def glaze(n: int) -> int:
    return sum(i * i for i in range(500 + n % 3))


def cool() -> None:
    time.sleep(0.45)


async def shift() -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1.5)
        await asyncio.gather(*(loop.run_in_executor(kilns, cool) for _ in range(2)))


async def fire(n: int) -> int:
    return await asyncio.get_running_loop().run_in_executor(kilns, glaze, n)


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await fire(n))


if __name__ == "__main__":
    service.streams(answer, shift)
