"""A rare request computes inside a coroutine; all others of the loop wait. The twin computes in
small pieces and lets the loop go on between."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Callable

turns = itertools.count(1)


def digest(amount: int) -> int:
    total = 0
    for step in range(amount):
        total += step * step
    return total


async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    if scope["type"] != "http":
        return
    n = next(turns)
    await asyncio.sleep(0.001)
    total = digest(10_000_000 if n % 80 == 40 else 3_000)
    body = b"%d" % total
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
