"""Flask: the application as a request under any server, named by its route."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Callable

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Flask.wsgi_app` (begins a request if no server did), `Flask.full_dispatch_request`
    (names it, once the route is known, and reads its status) and `Flask.handle_exception` (which
    gets exceptions that no handler of the application took, before a reply is made from them)."""

    def before_handling(self: Any, error: Any) -> None:
        request = native.current_request()
        if request:
            native.request_failed(request, type(error).__name__)

    wsgi.begins(native, module.Flask, "wsgi_app")
    native.hook(module.Flask, "handle_exception", before=before_handling)
    native.hook(module.Flask, "full_dispatch_request", before=_router(native, module), after=native.note_response)


def _router(native: Any, module: ModuleType) -> Callable[..., None]:
    """Names the current request by its route. `flask.request` is a proxy, each attribute of which
    costs a microsecond; the object behind it has moved between versions."""
    known = sys.modules.get("flask.globals")
    for name in ("_cv_request", "_cv_app"):  # to Flask 3.1; since 3.2
        variable = getattr(known, name, None)
        if isinstance(variable, ContextVar):
            return native.names_route(variable)  # type: ignore[no-any-return]

    def before(self: Any, *args: Any, **kwargs: Any) -> None:
        rule = getattr(module.request, "url_rule", None)
        if rule is not None:
            native.request_route(module.request.method, rule.rule)

    return before
