"""Pyramid: the application as a request under any server, named by the pattern of the route that
matched.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Router.__call__`, the application: it begins a request if no server did."""
    wsgi.begins(native, module.Router, "__call__")


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks the call of `RoutesMapper`, which finds the route. Without one (traversal) the path is
    the name.
    """

    def after(found: Any, self: Any, request: Any) -> None:
        route = found.get("route") if isinstance(found, dict) else None
        if route is not None:
            native.request_route(request.method, "/" + route.pattern.lstrip("/"))

    native.hook(module.RoutesMapper, "__call__", after=after)
