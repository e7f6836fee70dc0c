"""Tornado: one request a handler's `_execute`, named by the rule that found the handler. Websockets are none."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming

# The request that a rule matched last in this context, and the rule's pattern.
_matched: ContextVar[tuple[Any, str]] = ContextVar("dashcam_tornado_rule", default=(None, ""))


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `RequestHandler._execute`, whose coroutine becomes the task that serves the request."""

    def after(handling: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = self.request
        if not native.is_on() or asked.headers.get("Upgrade", "").lower() == "websocket":
            return None
        stream = getattr(asked.connection, "stream", None)
        socket = getattr(stream, "socket", None)
        current = native.request_arrives(asked.method, asked.path, True, socket, False)
        route = _route(self)
        if route is not None:
            native.request_named(current, asked.method, route)
        incoming.mapping(native, current, asked.headers)
        return native.handling(current, handling, lambda _result: self.get_status() >= 500)

    native.hook(module.RequestHandler, "_execute", after=after)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `PathMatches.match`: what it matched is the request's route."""

    def after(found: Any, self: Any, request: Any) -> None:
        if found is not None:
            _matched.set((weakref.ref(request), self.regex.pattern))

    native.hook(module.PathMatches, "match", after=after)


def _route(handler: Any) -> str | None:
    """`/price/([^/]+)` of the rule `/price/([^/]+)$`. Tornado's own rule for all other paths is no route."""
    matched, pattern = _matched.get()
    if matched is None or matched() is not handler.request or type(handler).__name__ == "ErrorHandler":
        return None
    return pattern.lstrip("^").rstrip("$")
