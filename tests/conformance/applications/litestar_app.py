"""Litestar: an application for any ASGI server."""

from __future__ import annotations

from typing import Any, AsyncIterator

import litestar
from litestar.response import Stream
from noting import kinds, note, stack, threads


@litestar.get("/plain/{name:str}")
async def plain(request: litestar.Request[Any, Any, Any], name: str) -> str:
    note(request.headers.get("X-Case", ""), "handler", stack(), threads(), sorted(request.scope), kinds(request.send))
    return f"plain {name}"


@litestar.post("/plain/{name:str}", sync_to_thread=True)
def posted(name: str) -> str:
    return f"posted {name}"


@litestar.get("/raises")
async def raises() -> None:
    raise LookupError("unhandled")


@litestar.get("/streams")
async def streams() -> Stream:
    async def parts() -> AsyncIterator[str]:
        for part in range(4):
            yield f"part {part} "

    return Stream(parts())


application = litestar.Litestar([plain, posted, raises, streams])
