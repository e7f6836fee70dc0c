"""A WSGI request: from the call of the application until its body is used up or closed.

The work is native (python/src/moments/wsgi.rs): `wsgi_call` around an application is the request.
Here is what frameworks need, which may be called inside of a server that has begun it.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable

Application = Callable[..., Iterable[bytes]]


def method(native: Any, original: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """A framework's `(self, environ, start_response)` that begins a request when no server did."""
    is_known, call = native.wsgi_is_known, native.wsgi_call

    @functools.wraps(original)
    def application(self: Any, environ: Any, start_response: Any) -> Any:
        if is_known(environ):
            return original(self, environ, start_response)
        return call(functools.partial(original, self), environ, start_response)

    return application
