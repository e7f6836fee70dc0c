"""A WSGI request: while its server's own function serves it, the sending of its body included.

How it works: each server has one function that serves a request (gunicorn's `handle_request`,
waitress' `WSGITask.execute`, ...). `serves` hooks it: a request begins before it, named by the part
that the server has read, and ends after it (python/src/moments/served.rs). The application, its
environment, `start_response` and the body are not changed. Under a server without an integration,
the call of a framework's application is the request (`begins`; python/src/moments/wsgi.rs): until
its body is used up or closed, if the body has a place for such a callback.

What it promises: if a server's object has an unexpected form, its function runs as without dashcam,
and a notice goes into `status()`, once for each server.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional


class Asked(NamedTuple):
    """The parts of a request that a server has read."""

    method: str
    path: str
    connection: Any = None
    traceparent: Any = None
    tracestate: Any = None


def serves(
    native: Any,
    holder: Any,
    name: str,
    asked: Any,
    failure: Optional[Callable[[Any], bool]] = None,
) -> None:
    """Hooks a server's method that serves one request. `asked` gets the method's arguments and
    returns an `Asked`, or is a `native.parsed`; `failure`, called when the method has returned, reads from its `self` whether the request
    failed."""
    native.hook(holder, name, around=native.serving(asked, failure))


def begins(native: Any, holder: Any, name: str) -> None:
    """Hooks a framework's `(self, environ, start_response)`: it begins a request if no server
    did.
    """
    native.hook(holder, name, around=native.wsgi_call, outermost=True)


def notes_status(native: Any, holder: Any, name: str = "start_response") -> None:
    """Hooks a server's `start_response(self, status, ...)`: a reply of 500 and more is a failure of
    the request.
    """
    native.hook(holder, name, before=native.note_status)


def notes_error(native: Any, holder: Any, name: str) -> None:
    """Hooks a server's method that handles the application's exception: `(self, type, value,
    traceback)` or `(self, exc_info)`."""

    def before(self: Any, first: Any = None, *more: Any, **kwargs: Any) -> None:
        kind = first[0] if isinstance(first, tuple) and first else first
        if isinstance(kind, type):
            native.request_failed(native.current_request(), kind.__name__)

    native.hook(holder, name, before=before)


def of_environ(environ: Any, connection: Any = None) -> Asked:
    """The request in the environment."""
    return Asked(
        environ["REQUEST_METHOD"],
        environ.get("PATH_INFO") or "/",
        connection,
        environ.get("HTTP_TRACEPARENT"),
        environ.get("HTTP_TRACESTATE"),
    )
