"""granian: one request for each call of a WSGI application, of a known framework or of none.

How it works: a worker of granian puts the application into a function that its native code calls.
That function gets a native call of ours in place of the application, and calls the application
through it: without a frame, and only granian holds it. The application itself is not changed.

What is missing on purpose: the arrival of a request, since native code reads the socket. ASGI
applications of no known framework, since granian's `send` returns an awaitable that is no
coroutine: the object around it would answer for an attribute that it lacks in other words.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch_wsgi(native: Any, module: ModuleType) -> None:
    """Hooks the function that wraps a WSGI application."""

    def before(callback: Any, *more: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (functools.partial(native.wsgi_call, callback), *more), named

    native.hook(module, "_callback_wrapper", before=before)
