"""Sanic's own server with handlers of every kind: `sanic_app.py PORT`."""

from __future__ import annotations

import logging
import sys
from typing import Any

import sanic
from noting import kinds, note, stack, threads

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s %(message)s")
app = sanic.Sanic("conformance")


@app.get("/plain/<name>", name="plain")
@app.post("/plain/<name>", name="posted")
async def plain(request: Any, name: str) -> Any:
    note(request.headers.get("X-Case", ""), "handler", stack(), threads(), kinds(request.app.handle_request),
         kinds(request.protocol.request_handler), kinds(request.app.router.get), request.route.path)
    return sanic.text(f"plain {name} {request.body!r}")


@app.get("/waits")
def waits(request: Any) -> Any:
    return sanic.text("no coroutine")


@app.get("/raises")
async def raises(request: Any) -> Any:
    raise LookupError("unhandled")


@app.get("/refuses")
async def refuses(request: Any) -> Any:
    raise sanic.exceptions.Forbidden("refused")


@app.get("/streams")
async def streams(request: Any) -> None:
    response = await request.respond(content_type="text/plain")
    for part in range(4):
        await response.send(f"part {part} ")


@app.websocket("/talks")
async def talks(request: Any, ws: Any) -> None:
    async for text in ws:
        await ws.send(f"heard {text}")


if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), single_process=True, motd=False, access_log=False)
