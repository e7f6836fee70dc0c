"""arq's workers: each run of a job is a request named `arq FUNCTION`."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Worker.run_job`, whose coroutine is the job's task, `deserialize_job_raw`, which gives
    the name of its function, and `serialize_result`, which gets its error. A job that asks to be
    run again has not failed."""

    def after_run(running: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if not native.is_on() or native.current_request():
            return None
        request = native.request_begin("arq job", True, -1, False)
        return native.handling(request, running, lambda _result: False)

    def after_reading(job: Any, *args: Any, **kwargs: Any) -> None:
        request = native.current_request()
        if request and isinstance(job, tuple):
            native.request_rename(request, f"arq {job[0]}")

    def before_writing(*args: Any, **kwargs: Any) -> None:
        # (function, args, kwargs, try, enqueued, success, result, ...)
        given: dict[str, Any] = dict(zip(_RESULT, args))
        given.update(kwargs)
        request = native.current_request()
        if request and given.get("success") is False:
            native.request_failed(request, type(given.get("result")).__name__)

    native.hook(module.Worker, "run_job", after=after_run)
    native.hook(module, "deserialize_job_raw", after=after_reading)
    native.hook(module, "serialize_result", before=before_writing)


_RESULT = ("function", "args", "kwargs", "job_try", "enqueue_time_ms", "success", "result")
