"""aiohttp's server with handlers of every kind: `aiohttp_app.py PORT`."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from aiohttp import web
from noting import kinds, note, stack, threads

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s %(message)s")


async def plain(request: Any) -> Any:
    task = asyncio.current_task()
    assert task is not None
    note(request.headers.get("X-Case", ""), "handler", stack(), threads(), kinds(task.get_coro()),
         [frame.f_code.co_name for frame in task.get_stack()])
    return web.Response(text=f"plain {request.match_info.get('name')} {await request.read()!r}")


async def raises(request: Any) -> Any:
    raise LookupError("unhandled")


async def refuses(request: Any) -> Any:
    raise web.HTTPForbidden(text="refused")


async def streams(request: Any) -> Any:
    response = web.StreamResponse()
    await response.prepare(request)
    for part in range(4):
        await response.write(b"part %d " % part)
    return response


async def streams_and_fails(request: Any) -> Any:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"part")
    raise LookupError("while streaming")


async def says_nothing(request: Any) -> Any:
    return None


async def sends(request: Any) -> Any:
    return web.FileResponse(__file__)


async def talks(request: Any) -> Any:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data)
        await socket.close()
    return socket


app = web.Application()
app.add_routes([web.route("*", "/plain/{name}", plain), web.get("/raises", raises), web.get("/refuses", refuses),
                web.get("/streams", streams), web.get("/streams_and_fails", streams_and_fails), web.get("/talks", talks),
                web.get("/says_nothing", says_nothing), web.get("/sends", sends), web.get("/ready", plain)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=lambda *said: None)
