"""aiohttp's server: one request for each call of `RequestHandler._handle_request`. Websockets are
none.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `RequestHandler._handle_request`. It is called while the data is read and makes the
    coroutine of the task that serves it."""

    def after(handling: Any, self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        upgrade = request.headers.get("Upgrade", "")
        if not native.is_on() or upgrade.lower() == "websocket":
            return None
        current = native.asgi_arrives(request.method, request.path, self.transport)
        incoming.mapping(native, current, request.headers)
        return native.handling(current, handling, _has_failed)

    native.hook(module.RequestHandler, "_handle_request", after=after)


def _has_failed(result: Any) -> bool:
    # (response, whether the connection was reset)
    response = result[0] if isinstance(result, tuple) else result
    return bool(getattr(response, "status", 0) >= 500)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `UrlDispatcher.resolve`, which finds the route."""

    def after(resolving: Any, self: Any, request: Any) -> Any:
        def found(match: Any) -> None:
            resource = getattr(match.route, "resource", None)
            if resource is not None:
                native.request_route(request.method, resource.canonical)

        return native.seen(resolving, found) if native.current_request() else None

    native.hook(module.UrlDispatcher, "resolve", after=after)
