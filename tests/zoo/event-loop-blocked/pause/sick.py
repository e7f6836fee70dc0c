"""A task of the loop, no request, pauses the blocking way. The twin's lets the loop go on."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any, Callable

turns = itertools.count(1)
tasks: list[asyncio.Task[None]] = []


async def simmer() -> None:
    while True:
        await asyncio.sleep(2.2)
        time.sleep(0.4)


async def app(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    if scope["type"] != "http":
        return
    if not tasks:
        tasks.append(asyncio.get_running_loop().create_task(simmer()))
    n = next(turns)
    await asyncio.sleep(0.001)
    body = str(sum(i * i for i in range(3000 + n % 5))).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
