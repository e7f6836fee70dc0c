"""Tornado: one request a handler's `_execute`, named by the rule that found the handler. Websockets are none."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Awaitable

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `RequestHandler._execute`, whose coroutine becomes the task that serves the request, and
    `_HandlerDelegate.execute`, which makes the handler when the whole request was read."""
    original = module.RequestHandler._execute

    @functools.wraps(original)
    def _execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        handling = original(self, *args, **kwargs)
        asked = self.request
        if not native.is_on() or asked.headers.get("Upgrade", "").lower() == "websocket":
            return handling
        stream = getattr(asked.connection, "stream", None)
        socket = getattr(stream, "socket", None)
        current = native.request_arrives(asked.method, asked.path, True, socket, False)
        incoming.mapping(native, current, asked.headers)
        return _handle(native, current, self, handling)

    module.RequestHandler._execute = _execute


async def _handle(native: Any, request: int, handler: Any, handling: Awaitable[Any]) -> Any:
    native.request_enter(request)
    error: bool | str = True
    try:
        route = _route(handler)
        if route is not None:
            native.request_route(handler.request.method, route)
        result = await handling
        error = handler.get_status() >= 500
        return result
    finally:
        native.request_end(request, error)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Wraps `PathMatches.match`: what it matched is the request's route."""
    original = module.PathMatches.match

    @functools.wraps(original)
    def match(self: Any, request: Any) -> Any:
        found = original(self, request)
        if found is not None:
            request._dashcam_route = self.regex.pattern
        return found

    module.PathMatches.match = match


def _route(handler: Any) -> str | None:
    """`/price/([^/]+)` of the rule `/price/([^/]+)$`. Tornado's own rule for all other paths is no route."""
    pattern = getattr(handler.request, "_dashcam_route", None)
    if pattern is None or type(handler).__name__ == "ErrorHandler":
        return None
    return str(pattern).lstrip("^").rstrip("$")
