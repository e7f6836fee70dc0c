"""A page has forty parts, each weighed by the loop's own thread in its turn; there are more of them than
the loop can weigh, so that dozens of pages wait for it, each in many tasks. The twin's parts are light."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

PARTS, LOAD = 40, 16_000
turns = asyncio.Semaphore(4)


def weigh(amount: int) -> int:
    total = 0
    for step in range(amount):
        total += step & 7
    return total


async def part(depth: int) -> int:
    if depth:
        return await part(depth - 1)
    async with turns:
        await asyncio.sleep(0)
        return weigh(LOAD)


async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    if scope["type"] != "http":
        return
    total = sum(await asyncio.gather(*(part(12) for _ in range(PARTS))))
    body = b"%d" % total
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
