"""Starlette and FastAPI: handlers of every kind; `application` is Starlette's with FastAPI mounted
in it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import BackgroundTasks, Depends, FastAPI
from noting import kinds, note, stack, threads
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute

api = FastAPI()


@api.get("/async/{name}")
async def async_endpoint(name: str, tasks: BackgroundTasks) -> Any:
    tasks.add_task(note, name, "in the background")
    note(name, "async endpoint", stack())
    return {"name": name}


@api.get("/plain/{name}")
def plain_endpoint(name: str) -> Any:
    note(name, "plain endpoint", stack(), threads())
    return {"name": name}


def dependency() -> Any:
    note("dependency", stack())
    yield 5


@api.get("/depends")
def depends(value: int = Depends(dependency)) -> Any:
    return value


@api.get("/raises")
def raises_endpoint() -> Any:
    raise LookupError("in a thread")


@api.get("/number/{number}")
async def number(number: int) -> Any:
    return number


async def plain(request: Any) -> Any:
    note(request.headers.get("x-case", ""), "endpoint", stack(), kinds(request.receive), sorted(request.scope))
    return PlainTextResponse(b"plain " + await request.body())


async def raises(request: Any) -> Any:
    raise LookupError("unhandled")


async def streams(request: Any) -> Any:
    async def parts() -> Any:
        for part in range(4):
            yield f"part {part} "
            await asyncio.sleep(0)

    return StreamingResponse(parts())


def streams_plainly(request: Any) -> Any:
    return StreamingResponse(f"part {part} " for part in range(4))


async def streams_and_fails(request: Any) -> Any:
    async def parts() -> Any:
        yield "part"
        raise LookupError("while streaming")

    return StreamingResponse(parts())


async def talks(socket: Any) -> None:
    await socket.accept()
    await socket.send_text(await socket.receive_text())
    await socket.close()


application = Starlette(routes=[
    Route("/plain", plain, methods=["GET", "POST"]), Route("/raises", raises), Route("/streams", streams),
    Route("/streams_plainly", streams_plainly), Route("/streams_and_fails", streams_and_fails),
    WebSocketRoute("/talks", talks), Mount("/api", api), Route("/ready", plain),
])
