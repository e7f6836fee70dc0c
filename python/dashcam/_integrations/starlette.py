"""Starlette and FastAPI: the application as a request under any server, named by its route."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi

_MOUNTED = "dashcam.mounted"


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Starlette.__call__`: begins a request when no server did."""
    module.Starlette.__call__ = asgi.wrap(native, module.Starlette.__call__)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Wraps `Route.handle` and `Mount.handle`, which run once the route is known."""
    route, mount = module.Route.handle, module.Mount.handle

    # Both give the coroutine of the real one: one of their own would be a frame more to step through.
    @functools.wraps(route)
    def handle(self: Any, scope: Any, receive: Any, send: Any) -> Any:
        native.request_route(scope["method"], scope.get(_MOUNTED, "") + self.path)
        return route(self, scope, receive, send)

    @functools.wraps(mount)
    def handle_mount(self: Any, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] == "http":
            path = scope[_MOUNTED] = scope.get(_MOUNTED, "") + self.path
            if not self.routes:  # static files, or an application of another kind
                native.request_route(scope["method"], path + "/{path}")
        return mount(self, scope, receive, send)

    module.Route.handle = handle
    module.Mount.handle = handle_mount
