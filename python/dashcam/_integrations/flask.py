"""Flask: the application as a request under any server, named by its route."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Flask.wsgi_app` (begins a request when no server did),
    `Flask.full_dispatch_request` (names it, once the route is known) and `Flask.handle_exception`
    (told of what no handler of the application took, before a reply is made of it)."""
    handle = module.Flask.handle_exception
    whole = module.Flask.wsgi_app
    dispatch = module.Flask.full_dispatch_request

    @functools.wraps(whole)
    def wsgi_app(self: Any, environ: Any, start_response: Any) -> Any:
        inner = functools.partial(whole, self)
        return wsgi.call(native, inner, environ, start_response)

    @functools.wraps(dispatch)
    def full_dispatch_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = native.current_request()
        if request:
            seen = module.request
            rule = getattr(seen, "url_rule", None)
            if rule is not None:
                native.request_rename(request, f"{seen.method} {rule.rule}")
        return dispatch(self, *args, **kwargs)

    @functools.wraps(handle)
    def handle_exception(self: Any, error: Any) -> Any:
        request = native.current_request()
        if request:
            native.request_failed(request, type(error).__name__)
        return handle(self, error)

    module.Flask.wsgi_app = wsgi_app
    module.Flask.handle_exception = handle_exception
    module.Flask.full_dispatch_request = full_dispatch_request
