"""Django, WSGI and ASGI: the application as a request under any server, named by its route."""

from __future__ import annotations

import functools
import re
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi, wsgi

# `re_path` keeps its anchors in the route: `^price/(?P<sku>[0-9]+)/$`.
_ANCHORS = re.compile(r"(?:(?<=/)|^)\^|\$$")


def patch_wsgi(native: Any, module: ModuleType) -> None:
    """Wraps `WSGIHandler.__call__`: begins a request when no server did."""
    module.WSGIHandler.__call__ = wsgi.method(native, module.WSGIHandler.__call__)


def patch_asgi(native: Any, module: ModuleType) -> None:
    """Wraps `ASGIHandler.__call__`: begins a request when no server did."""
    module.ASGIHandler.__call__ = asgi.wrap(native, module.ASGIHandler.__call__)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Wraps `BaseHandler.resolve_request`, which finds the view, for both."""
    original = module.BaseHandler.resolve_request

    @functools.wraps(original)
    def resolve_request(self: Any, request: Any) -> Any:
        match = original(self, request)
        if native.current_request():
            native.request_route(request.method, "/" + _ANCHORS.sub("", match.route))
        return match

    module.BaseHandler.resolve_request = resolve_request
