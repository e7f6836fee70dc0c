"""A WSGI request: from the call of the application until its body is used up or closed.

The work is native (python/src/moments/wsgi.rs): `wsgi_call` around an application is the request.
Here is what frameworks need, which may be called inside of a server that has begun it, and what servers need that
do not tell the application which connection a request came on: since when it waits there.
"""

from __future__ import annotations

import functools
import threading
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


class _Serving(threading.local):
    """The connection of the request that the calling thread serves."""

    connection: Any = None


_serving = _Serving()


def serves(original: Callable[[Any], Any], connection_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A server's method that serves one request in the calling thread; `connection_of` its `self` is the socket."""

    @functools.wraps(original)
    def serve(self: Any) -> Any:
        try:
            _serving.connection = connection_of(self)
        except AttributeError:
            _serving.connection = None  # another version's: the request begins with its call
        try:
            return original(self)
        finally:
            _serving.connection = None

    return serve


def wrap_application(native: Any, server: Any, attribute: str) -> None:
    """Has each object of the class `server` call the application that it keeps in `attribute` as a request."""
    original, call = server.__init__, native.wsgi_call

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        application = getattr(self, attribute)

        def called(environ: Any, start_response: Any) -> Any:
            return call(application, environ, start_response, _serving.connection)

        setattr(self, attribute, called)

    server.__init__ = __init__
