"""wsgiref: the reference server, and whatever runs applications through its handlers."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

def patch(native: Any, module: ModuleType) -> None:
    """Wraps `BaseHandler.run`."""
    original = module.BaseHandler.run

    @functools.wraps(original)
    def run(self: Any, application: Any) -> Any:
        handler = getattr(self, "request_handler", None)
        connection = getattr(handler, "connection", None)
        call = functools.partial(native.wsgi_call, application, connection=connection)
        return original(self, call)

    module.BaseHandler.run = run
