"""Thread pools: work handed to an executor keeps its request, and its time in the queue is known."""

from __future__ import annotations

import functools
import time
from types import ModuleType
from typing import Any, Callable


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `ThreadPoolExecutor.submit`. Without a current request the call is passed on as is."""
    original = module.ThreadPoolExecutor.submit

    @functools.wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        request = native.current_request()
        if not request:
            return original(self, fn, *args, **kwargs)
        return original(self, task(native, request, fn), *args, **kwargs)

    module.ThreadPoolExecutor.submit = submit


def task(native: Any, request: int, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, to be called on another thread for `request`; it stands in a queue from now on."""
    return functools.partial(_work, native, request, time.monotonic_ns(), fn)


def _work(
    native: Any, request: int, queued_ns: int, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    task = native.task_begin(request, queued_ns)
    try:
        return fn(*args, **kwargs)
    finally:
        native.task_end(task)
