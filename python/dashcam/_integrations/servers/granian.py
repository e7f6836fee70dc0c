"""granian: one request for each call of a WSGI or ASGI application, of a known framework or of none.

How it works: a worker of granian puts the application into a function that its native code calls.
That function gets a native call of ours in place of the application, and calls the application
through it: without a frame, and only granian holds it. The application itself is not changed.

What is missing on purpose: the arrival of a request, since native code reads the socket. RSGI,
granian's own interface: its response is no message, and may be complete before the application is.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch_wsgi(native: Any, module: ModuleType) -> None:
    """Hooks the function that wraps a WSGI application."""
    _hook(native, module, native.wsgi_call)


def patch_asgi(native: Any, module: ModuleType) -> None:
    """Hooks the function that wraps an ASGI application."""
    _hook(native, module, native.asgi_call)


def _hook(native: Any, module: ModuleType, call: Any) -> None:
    def before(callback: Any, *more: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (functools.partial(call, callback), *more), named

    native.hook(module, "_callback_wrapper", before=before)
