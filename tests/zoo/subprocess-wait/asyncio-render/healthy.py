"""Rarely another program does a part of the work, and takes long. The twin's is quick."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import service  # noqa: E402

WORK = "pass"


async def render(n: int) -> int:
    if n % 120 != 40:
        return n
    child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", WORK)
    return await child.wait()


async def answer(n: int) -> str:
    return str(service.honest_work(n) + await render(n))


if __name__ == "__main__":
    service.streams(answer)
