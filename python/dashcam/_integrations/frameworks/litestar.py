"""Litestar: the application as a request under any server, named by its route."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import asgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Litestar.__call__`: begins a request if no server did."""
    asgi.begins(native, module.Litestar)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `HTTPRoute.handle`, which is called once the route is known."""

    def before(self: Any, scope: Any, receive: Any, send: Any) -> None:
        request = native.current_request()
        if request:
            native.request_named(request, scope.get("method", "?"), self.path_format)

    native.hook(module.HTTPRoute, "handle", before=before)
