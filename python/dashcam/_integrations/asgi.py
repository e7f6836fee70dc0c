"""An ASGI request: from the arrival of its data until the last part of its response is handed over.

The work is native (python/src/moments/asgi.rs). A server's hook calls `native.asgi_begins` where
the request is read, which is not yet the task that will work for it; `native.asgi_serve` is called
in that task. A loop that is blocked before the request is read, or before the task runs, delays
this request, so both waits are part of it: the socket gives the time before the reading, the clock
the time after it. `native.asgi_call` is for applications that may be called inside of a server that
has begun the request.
"""

from __future__ import annotations

from typing import Any


def begins(native: Any, holder: Any, name: str = "__call__") -> None:
    """Hooks an application's `(self, scope, receive, send)`: it begins a request if none was
    begun.
    """
    native.hook(holder, name, around=native.asgi_call, outermost=True)
