"""uvicorn, with h11 and with httptools, also as gunicorn's worker: one request a response cycle."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `RequestResponseCycle.run_asgi`. It is called while the data is read and makes the
    coroutine of the task that serves it."""
    asgi.prepare(native)
    cycle = module.RequestResponseCycle
    original, is_on = cycle.run_asgi, native.is_on
    arrives, serve = native.asgi_arrives, native.asgi_serve

    @functools.wraps(original)
    def run_asgi(self: Any, app: Any) -> Any:
        if not is_on():
            return original(self, app)
        scope = self.scope
        request = arrives(scope["method"], scope["path"], self.transport, scope["headers"])
        return original(self, functools.partial(serve, request, app))

    cycle.run_asgi = run_asgi
