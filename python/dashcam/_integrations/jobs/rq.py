"""RQ's workers: each run of a job is a request named `rq FUNCTION`. A job of a queue that is not
asynchronous runs in its caller's request."""

from __future__ import annotations

from contextvars import ContextVar
from types import ModuleType
from typing import Any

# The requests of this context's runs, innermost last; 0 for none.
_running: ContextVar[tuple[int, ...]] = ContextVar("dashcam_rq", default=())


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Job.perform`, which every worker calls, most of them in a process of its own."""

    def before(self: Any) -> None:
        begins = native.is_on() and not native.current_request()
        _running.set((*_running.get(), native.request_begin(f"rq {self.func_name}") if begins else 0))

    def end(error: bool | str) -> None:
        *outer, request = _running.get() or (0,)
        _running.set(tuple(outer))
        if request:
            native.request_end(request, error)

    def after(result: Any, self: Any) -> None:
        end(False)

    def failed(kind: str, self: Any) -> None:
        end(kind or True)

    native.hook(module.Job, "perform", before=before, after=after, failed=failed)
