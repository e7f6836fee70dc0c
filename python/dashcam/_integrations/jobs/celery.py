"""Celery's workers, whatever their pool: each run of a task is a request named `celery TASK`. Tasks
that are called in place (`task_always_eager`, `apply`) are their caller's work."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any

from dashcam._integrations import incoming


# The requests of this context's runs, innermost last; 0 for none.
_running: ContextVar[tuple[int, ...]] = ContextVar("dashcam_celery", default=())


def patch(native: Any, module: Any) -> None:
    """Hooks `build_tracer`, which makes the function that runs a task."""

    def after(trace: Any, name: str, task: Any, *args: Any, **kwargs: Any) -> Any:
        return None if kwargs.get("eager") else _hooked(native, f"celery {name}", trace)

    native.hook(module, "build_tracer", after=after)
    _hook_built(native)


def _hook_built(native: Any) -> None:
    """A worker that runs already has built the functions that run its tasks."""
    state = sys.modules.get("celery._state")
    for app in state._get_active_apps() if state is not None else ():
        for task in list(app._tasks.values()):
            trace = getattr(task, "__trace__", None)
            if trace is not None:
                task.__trace__ = _hooked(native, f"celery {task.name}", trace)


def _hooked(native: Any, name: str, trace: Any) -> Any:
    # trace(uuid, args, kwargs, request): headers of the message lie among the request's own fields.
    def before(*args: Any, **kwargs: Any) -> None:
        request = 0
        if native.is_on() and not native.current_request():
            request = native.request_begin(name)
        _running.set((*_running.get(), request))
        message = kwargs.get("request") or (args[3] if len(args) > 3 else None)
        if request and isinstance(message, dict):
            incoming.mapping(native, request, message)

    def end(error: bool | str) -> None:
        *outer, request = _running.get() or (0,)
        _running.set(tuple(outer))
        if request:
            native.request_end(request, error)

    def after(result: Any, *args: Any, **kwargs: Any) -> None:
        # (result, state, runtime, text); the state is empty for a success.
        became = result[1] if isinstance(result, tuple) and len(result) > 1 else None
        failed = getattr(became, "state", None) == "FAILURE"
        end(type(getattr(became, "retval", None)).__name__ if failed else False)

    def failed(kind: str, *args: Any, **kwargs: Any) -> None:
        end(kind or True)

    return native.hooked(trace, before=before, after=after, failed=failed)
