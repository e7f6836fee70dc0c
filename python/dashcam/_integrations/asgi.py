"""An ASGI request: from the arrival of its data until the last piece of its response is handed over.

The work is native (python/src/moments/asgi.rs). A server's hook calls `native.asgi_begins` where the
request is read, which is not yet the task that will work for it; `native.asgi_serve` is called in that
task. A loop that was blocked the while, or is before the task gets its turn, is in the way of this
request, so both waits are part of it: what came before that is told by the socket, what comes after
by the clock. `native.asgi_call` is for what may be called inside of a server that has begun the request.
"""

from __future__ import annotations

from typing import Any


def begins(native: Any, holder: Any, name: str = "__call__") -> None:
    """Hooks an application's `(self, scope, receive, send)`: it begins a request when nobody has."""
    native.hook(holder, name, around=native.asgi_call)
