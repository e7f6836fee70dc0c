"""Every so many requests a coroutine rests."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import asyncio  # noqa: E402


async def settle(n: int) -> int:
    if stage.is_due(n):
        await asyncio.sleep(0.5)
    return stage.service.honest_work(n)


async def answer(n: int) -> str:
    return str(await settle(n))


if __name__ == "__main__":
    stage.tornado(answer)
