"""Flask: the application as a request under any server, named by its route."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Flask.wsgi_app` (begins a request when no server did) and
    `Flask.full_dispatch_request` (names it, once the route is known)."""
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

    module.Flask.wsgi_app = wsgi_app
    module.Flask.full_dispatch_request = full_dispatch_request
