"""An ASGI request: from the arrival of its data until the last piece of its response is handed over.

How it works: the server's hook calls `native.asgi_arrives` where the request is read, which is not
yet the task that will work for it; `native.asgi_serve` (python/src/moments/asgi.rs) is called in that
task. A loop that was blocked the while, or is before the task gets its turn, is in the way of this
request, so both waits are part of it: what came before that is told by the socket, what comes after
by the clock. Here is what frameworks need, which may be called inside of a server that has begun it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Awaitable, Callable

# Where the marks are by which a callable is known as a coroutine function, and their names there.
_MARKS = (("asyncio.coroutines", "_is_coroutine"), ("inspect", "_is_coroutine_mark"))


def prepare(native: Any) -> None:
    """Marks the native `send` as the coroutine function it stands for: who asks asyncio (and, since
    3.12, inspect) is told what it is told of the server's own."""
    for name, mark in _MARKS:
        value = getattr(sys.modules.get(name), mark, None)
        if value is not None:
            setattr(native.AsgiSend, mark, value)


def wrap(native: Any, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A framework's `__call__(self, scope, receive, send)` that begins a request when no server of
    ours has."""
    prepare(native)
    current, serve = native.current_request, native.asgi_serve

    @functools.wraps(call)
    async def __call__(self: Any, scope: Any, receive: Any, send: Any) -> Any:
        if current() or scope["type"] != "http" or not native.is_on():
            return await call(self, scope, receive, send)
        request = native.asgi_arrives(scope["method"], scope["path"], None, scope["headers"])
        return await serve(request, functools.partial(call, self), scope, receive, send)

    return __call__
