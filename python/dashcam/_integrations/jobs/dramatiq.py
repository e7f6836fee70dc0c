"""Dramatiq's workers: each message that is processed is a request named `dramatiq ACTOR`."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import ModuleType
from typing import Any

# The request of the message that this context processes.
_request: ContextVar[int] = ContextVar("dashcam_dramatiq", default=0)


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `_WorkerThread.process_message`, which calls the actor and keeps its exception in the
    message. An actor that asks to be run again has not failed."""
    errors = getattr(module, "Retry", ())
    # Before 2.0 the worker does not import it; the package does, earlier.
    messages = module if hasattr(module, "MessageProxy") else sys.modules["dramatiq.broker"]

    def before(self: Any, message: Any) -> None:
        begins = native.is_on() and not native.current_request()
        _request.set(native.request_begin(f"dramatiq {message.actor_name}") if begins else 0)

    def after(result: None, self: Any, message: Any) -> None:
        # The message has let go of its exception by now.
        if _request.get():
            native.request_end(_request.get(), False)

    def failed(kind: str, self: Any, message: Any) -> None:
        if _request.get():
            native.request_end(_request.get(), kind or True)

    def before_keeping(self: Any, exception: BaseException) -> None:
        request = native.current_request()
        if request and not isinstance(exception, errors):
            native.request_failed(request, type(exception).__name__)

    native.hook(module._WorkerThread, "process_message", before=before, after=after, failed=failed)
    native.hook(messages.MessageProxy, "stuff_exception", before=before_keeping)
