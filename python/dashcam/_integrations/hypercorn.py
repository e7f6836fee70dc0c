"""hypercorn: one request a call of the application."""

from __future__ import annotations

import functools
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi

# The connection's own transport, for the tasks that its task makes.
_transport: ContextVar[Any] = ContextVar("dashcam_hypercorn_transport", default=None)


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `ASGIWrapper.__call__`."""
    asgi.prepare(native)
    original = module.ASGIWrapper.__call__

    @functools.wraps(original)
    async def __call__(self: Any, scope: Any, receive: Any, send: Any, *more: Any) -> Any:
        if scope["type"] != "http" or not native.is_on():
            return await original(self, scope, receive, send, *more)
        request = native.asgi_arrives(
            scope["method"], scope["path"], _transport.get(), scope["headers"]
        )

        def inner(scope: Any, receive: Any, send: Any) -> Any:
            return original(self, scope, receive, send, *more)

        return await native.asgi_serve(request, inner, scope, receive, send)

    module.ASGIWrapper.__call__ = __call__


def patch_connections(native: Any, module: ModuleType) -> None:
    """Wraps `TCPServer.run`, the task of a connection."""
    original = module.TCPServer.run

    @functools.wraps(original)
    async def run(self: Any) -> Any:
        _transport.set(self.writer)
        return await original(self)

    module.TCPServer.run = run
