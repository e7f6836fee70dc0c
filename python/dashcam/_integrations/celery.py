"""Celery's workers, whatever their pool: each run of a task is a request named `celery TASK`. Tasks
that are called in place (`task_always_eager`, `apply`) are their caller's work."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `build_tracer`, which makes the function that runs a task."""
    original = module.build_tracer

    @functools.wraps(original)
    def build_tracer(name: str, task: Any, *args: Any, **kwargs: Any) -> Any:
        trace = original(name, task, *args, **kwargs)
        if kwargs.get("eager"):
            return trace
        return functools.partial(_run, native, f"celery {name}", trace)

    module.build_tracer = build_tracer


def _run(native: Any, name: str, trace: Any, *args: Any, **kwargs: Any) -> Any:
    if not native.is_on() or native.current_request():
        return trace(*args, **kwargs)
    request = native.request_begin(name)
    # trace(uuid, args, kwargs, request): headers of the message lie among the request's own fields.
    message = kwargs.get("request") or (args[3] if len(args) > 3 else None)
    if isinstance(message, dict):
        incoming.mapping(native, request, message)
    error: bool | str = True
    try:
        result = trace(*args, **kwargs)
        # (result, what became of it, runtime, text); nothing became of a success.
        error = getattr(result[1], "state", None) == "FAILURE"
        if error:
            error = type(getattr(result[1], "retval", None)).__name__
        return result
    finally:
        native.request_end(request, error)
