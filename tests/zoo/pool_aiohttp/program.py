"""All requests ask a peer over the one connection that aiohttp's connector allows; a few ask for a
long page. The twin asks for short ones."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402
import service  # noqa: E402

import aiohttp  # noqa: E402

base = f"http://127.0.0.1:{beside.start('peer.py')}"
sessions: list[aiohttp.ClientSession] = []


def session() -> aiohttp.ClientSession:
    if not sessions:
        sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)))
    return sessions[0]


async def digest() -> str:
    async with session().get(base + ("/long" if service.SICK else "/short")) as page:
        return await page.text()


async def look_up(n: int) -> str:
    async with session().get(base + "/short") as page:
        return await page.text()


async def answer(n: int) -> str:
    return await (digest() if n % 50 == 25 else look_up(n))


if __name__ == "__main__":
    service.fastapi(answer)
