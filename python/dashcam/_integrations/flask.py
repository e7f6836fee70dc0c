"""Flask: the application as a request under any server, named by its route."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Callable

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Flask.wsgi_app` (begins a request if no server did), `Flask.full_dispatch_request`
    (names it, once the route is known, and reads its status) and `Flask.handle_exception` (which
    gets exceptions that no handler of the application took, before a reply is made from them)."""
    find = _finder(module)

    def before_dispatch(self: Any, *args: Any, **kwargs: Any) -> None:
        seen = find()
        rule = getattr(seen, "url_rule", None)
        if rule is not None:
            native.request_route(seen.method, rule.rule)

    def before_handling(self: Any, error: Any) -> None:
        request = native.current_request()
        if request:
            native.request_failed(request, type(error).__name__)

    def after_dispatch(response: Any, *args: Any, **kwargs: Any) -> None:
        if response.status_code >= 500:
            native.request_failed(native.current_request(), "")

    wsgi.begins(native, module.Flask, "wsgi_app")
    native.hook(module.Flask, "handle_exception", before=before_handling)
    native.hook(module.Flask, "full_dispatch_request", before=before_dispatch, after=after_dispatch)


def _finder(module: ModuleType) -> Callable[[], Any]:
    """Finds the current request. `flask.request` is a proxy, each attribute of which costs a
    microsecond; the object behind it has moved between versions."""
    known = sys.modules.get("flask.globals")
    for name in ("_cv_request", "_cv_app"):  # to Flask 3.1; since 3.2
        variable = getattr(known, name, None)
        if variable is not None:
            return functools.partial(_behind, variable.get, module)
    return lambda: module.request


def _behind(get: Any, module: ModuleType) -> Any:
    context = get(None)
    return getattr(context, "request", None) or module.request
