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

    @functools.wraps(route)
    async def handle(self: Any, scope: Any, receive: Any, send: Any) -> None:
        request = native.current_request()
        if request:
            path = scope.get(_MOUNTED, "") + self.path
            native.request_rename(request, f"{scope['method']} {path}")
        await route(self, scope, receive, send)

    @functools.wraps(mount)
    async def handle_mount(self: Any, scope: Any, receive: Any, send: Any) -> None:
        request = native.current_request()
        if request and scope["type"] == "http":
            path = scope[_MOUNTED] = scope.get(_MOUNTED, "") + self.path
            if not self.routes:  # static files, or an application of another kind
                native.request_rename(request, f"{scope['method']} {path}/{{path}}")
        await mount(self, scope, receive, send)

    module.Route.handle = handle
    module.Mount.handle = handle_mount
