"""uvicorn, with h11 and with httptools, also as gunicorn's worker: one request a response cycle."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import asgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `RequestResponseCycle.run_asgi`. It is called while the data is read and makes the
    coroutine of the task that serves it."""
    cycle = module.RequestResponseCycle
    original = cycle.run_asgi

    @functools.wraps(original)
    def run_asgi(self: Any, app: Any) -> Any:
        if not native.is_on():
            return original(self, app)
        scope = self.scope
        request = asgi.begin(native, scope["method"], scope["path"], self.transport)
        return original(self, functools.partial(asgi.serve, native, request, app))

    cycle.run_asgi = run_asgi
