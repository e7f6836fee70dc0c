"""A WSGI request: while its server's own function serves it, the sending of its body included.

How it works: each server has one function that serves a request (gunicorn's `handle_request`, waitress'
`WSGITask.execute`, ...). `serves` wraps it: a request begins in front of it, named by what the server has
read of it, and ends behind it. The application, its environment, `start_response` and the body are not
touched. Under a server without an integration, the application of a framework is the request
(`method`; python/src/moments/wsgi.rs): until its body is used up or closed, as far as the body has a place
for such a callback.

What it promises: where a server's object looks other than expected, its function runs as without us, and a
notice goes into `status()`, once a server.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, NamedTuple, Optional, Union
from urllib.parse import unquote

from dashcam import _process

Application = Callable[..., Iterable[bytes]]
Failure = Union[bool, str]


class Asked(NamedTuple):
    """What a server has read of a request."""

    method: str
    path: str
    connection: Any = None
    traceparent: Any = None
    tracestate: Any = None


def serves(
    native: Any,
    original: Callable[..., Any],
    asked: Callable[..., Asked],
    failure: Optional[Callable[..., Failure]] = None,
) -> Callable[..., Any]:
    """A server's function that serves one request. `asked` is given what the function is given; `failure`,
    when the function has returned, tells from its `self` whether the request failed."""
    faults = _Faults(original)

    @functools.wraps(original)
    def serve(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = 0
        try:
            if native.is_on() and not native.current_request():
                request = _begin(native, asked(self, *args, **kwargs))
        except Exception as error:  # noqa: BLE001 - never into the host
            faults.note(error)
        if not request:
            return original(self, *args, **kwargs)
        failed: Failure = False
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            failed = _name_of(error)
            raise
        finally:
            try:
                native.request_end(request, failed or (failure is not None and failure(self)))
            except Exception as error:  # noqa: BLE001
                native.request_end(request, failed)
                faults.note(error)

    return serve


def _begin(native: Any, asked: Asked) -> int:
    path = unquote(asked.path) if "%" in asked.path else asked.path
    request: int = native.request_arrives(asked.method, path, False, asked.connection)
    if request and asked.traceparent is not None:
        state = asked.tracestate if isinstance(asked.tracestate, str) else ""
        try:
            native.request_continue(request, asked.traceparent, state)
        except (TypeError, UnicodeEncodeError):  # what a client sends is no error of ours
            pass
    return request


def _name_of(error: BaseException) -> Failure:
    """The type of the application's error. Servers raise two kinds that are none: a client that went away, and
    StopIteration (gunicorn), which says that the connection is to be closed, in place of an error of the body."""
    if isinstance(error, StopIteration):
        if error.__context__ is None:
            return False
        error = error.__context__
    if isinstance(error, ConnectionError):
        return False
    return type(error).__name__


class _Faults:
    """Says once that a server is not as expected."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.what: Optional[str] = f"{original.__module__}.{original.__qualname__}"

    def note(self, error: Exception) -> None:
        what, self.what = self.what, None
        if what is not None:
            _process.notice(f"{what} is not as expected, its requests are not recorded: {error!r}")


def notes_status(native: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """A server's `start_response(self, status, ...)`: a reply of 500 and more is a failure of the request."""

    @functools.wraps(original)
    def start_response(self: Any, status: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(status, str) and status.startswith("5"):
            native.request_failed(native.current_request(), "")
        return original(self, status, *args, **kwargs)

    return start_response


def notes_error(native: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """A server's method `(self, type, value, traceback)` or `(self, exc_info)` that handles what the application
    has raised."""

    @functools.wraps(original)
    def handle(self: Any, *error: Any) -> Any:
        kind = error[0][0] if error and isinstance(error[0], tuple) and error[0] else error[0] if error else None
        if isinstance(kind, type):
            native.request_failed(native.current_request(), kind.__name__)
        return original(self, *error)

    return handle


def method(native: Any, original: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """A framework's `(self, environ, start_response)` that begins a request when no server did."""
    current, call = native.current_request, native.wsgi_call

    @functools.wraps(original)
    def application(self: Any, environ: Any, start_response: Any) -> Any:
        if current():
            return original(self, environ, start_response)
        return call(functools.partial(original, self), environ, start_response)

    return application


def of_environ(environ: Any, connection: Any = None) -> Asked:
    """What the environment says of a request."""
    return Asked(
        environ["REQUEST_METHOD"],
        environ.get("PATH_INFO") or "/",
        connection,
        environ.get("HTTP_TRACEPARENT"),
        environ.get("HTTP_TRACESTATE"),
    )
