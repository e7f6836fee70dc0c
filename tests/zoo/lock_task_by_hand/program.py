"""An asyncio.Lock taken with `await acquire()` by a request that then dawdles. The twin
hardly does."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import asyncio  # noqa: E402

guard = asyncio.Lock()


async def dawdle() -> None:
    await asyncio.sleep(0.5 if service.SICK else 0.05)


async def audit(n: int) -> str:
    await guard.acquire()
    try:
        await dawdle()
        return "audited"
    finally:
        guard.release()


async def note(n: int) -> str:
    await guard.acquire()
    try:
        return str(service.honest_work(n))
    finally:
        guard.release()


async def answer(n: int) -> str:
    return await (audit(n) if n % 50 == 25 else note(n))


if __name__ == "__main__":
    service.fastapi(answer)
