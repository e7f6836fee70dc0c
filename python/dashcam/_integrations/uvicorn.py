"""uvicorn, with h11 and with httptools, also as gunicorn's worker: one request for each response
cycle.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `RequestResponseCycle.run_asgi`. It is called while the data is read and makes the
    coroutine of the task that serves it."""
    is_on, begins, serve = native.is_on, native.asgi_begins, native.asgi_serve

    def before(self: Any, app: Any) -> Any:
        if not is_on():
            return None
        request = begins(self.scope, self.transport)
        return (self, functools.partial(serve, request, app)), {}

    native.hook(module.RequestResponseCycle, "run_asgi", before=before)
