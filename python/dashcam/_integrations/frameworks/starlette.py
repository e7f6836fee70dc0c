"""Starlette and FastAPI: the application as a request under any server, named by its route."""

from __future__ import annotations

from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi

# The request of this context, and the path of the application that it was passed on to.
# No default: without a mount there is nothing to read.
_mounted: ContextVar[tuple[int, str]] = ContextVar("dashcam_mounted")


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Starlette.__call__`: begins a request if no server did."""
    asgi.begins(native, module.Starlette)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `Route.handle` and `Mount.handle`, which are called once the route is known."""

    def before_mount(self: Any, scope: Any, receive: Any, send: Any) -> None:
        request = native.current_request()
        if request and scope.get("type") == "http":
            path = _path(request) + self.path
            _mounted.set((request, path))
            if not self.routes:  # static files, or an application of another kind
                native.request_named(request, scope.get("method", "?"), path + "/{path}")

    native.hook(module.Route, "handle", before=native.names_path(_mounted))
    native.hook(module.Mount, "handle", before=before_mount)


def _path(request: int) -> str:
    known, path = _mounted.get((0, ""))
    return path if known == request else ""
