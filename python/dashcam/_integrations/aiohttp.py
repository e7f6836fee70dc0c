"""aiohttp's server: one request a call of `RequestHandler._handle_request`. Websockets are none."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Awaitable

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `RequestHandler._handle_request`. It is called while the data is read and makes the
    coroutine of the task that serves it."""
    original = module.RequestHandler._handle_request

    @functools.wraps(original)
    def _handle_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        handling = original(self, request, *args, **kwargs)
        upgrade = request.headers.get("Upgrade", "")
        if not native.is_on() or upgrade.lower() == "websocket":
            return handling
        current = native.asgi_arrives(request.method, request.path, self.transport)
        incoming.mapping(native, current, request.headers)
        return _handle(native, current, handling)

    module.RequestHandler._handle_request = _handle_request


async def _handle(native: Any, request: int, handling: Awaitable[Any]) -> Any:
    native.request_enter(request)
    error: bool | str = True
    try:
        result = await handling
        # (response, whether the connection was reset)
        response = result[0] if isinstance(result, tuple) else result
        error = getattr(response, "status", 0) >= 500
        return result
    finally:
        native.request_end(request, error)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Wraps `UrlDispatcher.resolve`, which finds the route."""
    original = module.UrlDispatcher.resolve

    @functools.wraps(original)
    async def resolve(self: Any, request: Any) -> Any:
        match = await original(self, request)
        resource = getattr(match.route, "resource", None)
        if resource is not None and native.current_request():
            native.request_route(request.method, resource.canonical)
        return match

    module.UrlDispatcher.resolve = resolve
