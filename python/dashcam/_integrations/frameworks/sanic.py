"""Sanic on its own server: one request for each call of the application's handler, named by its
route. Websockets are none. Under an ASGI server the server's hook begins it, and this names it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `HttpProtocol.__init__`, which gets the function that handles a request. Sanic compiles
    that function anew when it starts, so the function itself is no place for a hook."""

    def handled(handling: Any, request: Any) -> Any:
        upgrade = request.headers.get("upgrade", "")
        if not native.is_on() or native.current_request() or upgrade.lower() == "websocket":
            return None
        current = native.asgi_arrives(request.method, request.path, request.transport)
        incoming.mapping(native, current, request.headers)
        return native.handling(current, handling, lambda _result: _has_failed(request))

    def after(result: None, self: Any, *args: Any, **kwargs: Any) -> None:
        self.request_handler = native.hooked(self.request_handler, after=handled)

    native.hook(module.HttpProtocol, "__init__", after=after)


def _has_failed(request: Any) -> bool:
    response = getattr(request.stream, "response", None)
    return bool(getattr(response, "status", 0) >= 500)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `Router.get`, which finds the route."""

    def after(found: Any, self: Any, path: str, method: str, host: Any) -> None:
        if native.current_request():
            native.request_route(method, "/" + found[0].path.lstrip("/"))

    native.hook(module.Router, "get", after=after)
