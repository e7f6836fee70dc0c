"""An ASGI request: from the arrival of its data until the last piece of its response is handed over.

How it works: the server's hook calls `begin` where the request is read, which is not yet the task
that will work for it; `serve` is that task. A loop that was blocked the while, or is before the
task gets its turn, is in the way of this request, so both waits are part of it: what came before
`begin` is told by the socket, what comes after by the clock.

What follows the response (background tasks) is not the client's wait, so it is not part of it.
Websockets and lifespan are no requests.
"""

from __future__ import annotations

import functools
from typing import Any, Awaitable, Callable

from dashcam._integrations import wsgi

Application = Callable[[Any, Any, Any], Awaitable[Any]]


def begin(native: Any, method: str, path: str, transport: Any = None) -> int:
    """Begins a request that another context will work for; 0 when off."""
    connection = None
    if transport is not None:
        connection = transport.get_extra_info("socket")
    name = wsgi.raw_name(method, path)
    request: int = native.request_begin(name, True, wsgi.descriptor(connection), False)
    return request


async def serve(
    native: Any, request: int, application: Application, scope: Any, receive: Any, send: Any
) -> Any:
    """Runs the application as `request`, in the context of this task."""
    native.request_enter(request)
    is_open, error = True, False

    async def sending(message: Any) -> None:
        nonlocal is_open, error
        await send(message)
        # The server took it, so it is well-formed.
        if message["type"] == "http.response.start":
            error = message["status"] >= 500
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            if is_open:
                is_open = False
                native.request_end(request, error)

    failed: bool | str = False
    try:
        return await application(scope, receive, sending)
    except BaseException as raised:
        failed = type(raised).__name__
        raise
    finally:
        if is_open:
            is_open = False
            native.request_end(request, failed or error)


def wrap(native: Any, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A framework's `__call__(self, scope, receive, send)` that begins a request when no server of
    ours has."""

    @functools.wraps(call)
    async def __call__(self: Any, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] != "http" or not native.is_on() or native.current_request():
            return await call(self, scope, receive, send)
        request = begin(native, scope["method"], scope["path"])
        inner = functools.partial(call, self)
        return await serve(native, request, inner, scope, receive, send)

    return __call__
