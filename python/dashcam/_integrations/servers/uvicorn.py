"""uvicorn, with h11 and with httptools, also as gunicorn's worker: one request for each response
cycle.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `RequestResponseCycle.run_asgi`. It is called while the data is read and makes the
    coroutine of the task that serves it."""
    native.hook(module.RequestResponseCycle, "run_asgi", around=native.asgi_run)
