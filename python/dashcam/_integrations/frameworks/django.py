"""Django, WSGI and ASGI: the application as a request under any server, named by its route."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi, wsgi

# `re_path` keeps its anchors in the route: `^price/(?P<sku>[0-9]+)/$`.
_ANCHORS = re.compile(r"(?:(?<=/)|^)\^|\$$")


def patch_wsgi(native: Any, module: ModuleType) -> None:
    """Hooks `WSGIHandler.__call__`: begins a request if no server did."""
    wsgi.begins(native, module.WSGIHandler, "__call__")


def patch_asgi(native: Any, module: ModuleType) -> None:
    """Hooks `ASGIHandler.__call__`: begins a request if no server did."""
    asgi.begins(native, module.ASGIHandler)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `BaseHandler.resolve_request`, which finds the view, for both."""

    def after(match: Any, self: Any, request: Any) -> None:
        if native.current_request():
            native.request_route(request.method, "/" + _ANCHORS.sub("", match.route))

    native.hook(module.BaseHandler, "resolve_request", after=after)
