"""A WSGI request: from the call of the application until its body is used up or closed."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Iterator

_ID = re.compile(r"^(\d+|[0-9a-fA-F]{8,}|[0-9a-fA-F-]{32,}|.{33,})$")
_MOST_NAMES = 500
_names: set[str] = set()

Application = Callable[..., Iterable[bytes]]


def raw_name(method: str, path: str) -> str:
    """`GET /price/{id}`: a name for a path whose route is not known.

    The query goes, segments that look like ids become `{id}`, and past 500 distinct names all
    others are `METHOD (other)`: names are for grouping, not for keeping data.
    """
    path = path.split("?", 1)[0]
    if f"{method} {path}" in _names:
        return f"{method} {path}"
    name = f"{method} " + "/".join("{id}" if _ID.match(part) else part for part in path.split("/"))
    if name not in _names:
        if len(_names) >= _MOST_NAMES:
            return f"{method} (other)"
        _names.add(name)
    return name


def call(
    native: Any, application: Application, environ: Any, start_response: Any, connection: Any = None
) -> Any:
    """Calls a WSGI application as one request; inside another request it just calls it.

    `connection` is the request's socket where the server does not put it into `environ`: with it,
    time the request waited for its handler is part of the request.
    """
    if not native.is_on():
        return application(environ, start_response)
    current = native.current_request()
    if current:
        if environ.get("dashcam.request") != current:
            start_response = _telling(native, current, start_response)
        return application(environ, start_response)
    name = raw_name(str(environ.get("REQUEST_METHOD", "?")), str(environ.get("PATH_INFO", "/")))
    if connection is None:
        connection = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
    request = native.request_begin(name, False, descriptor(connection))
    environ["dashcam.request"] = request
    try:
        body = application(environ, _telling(native, request, start_response))
    except BaseException as error:
        native.request_end(request, type(error).__name__)
        raise
    if isinstance(body, (list, tuple)):
        native.request_end(request, False)
        return body
    return Body(native, request, body)


def _telling(native: Any, request: int, start_response: Any) -> Any:
    """A `start_response` that notes a reply of 500 and more as a failure of the request."""

    def starting(status: str, *args: Any, **kwargs: Any) -> Any:
        if status[:1] == "5":
            native.request_failed(request, "")
        return start_response(status, *args, **kwargs)

    return starting


def descriptor(connection: Any) -> int:
    """The descriptor of a socket, -1 when there is none."""
    try:
        return int(connection.fileno())
    except (AttributeError, OSError, TypeError, ValueError):
        return -1


class Body:
    """A body that is made while it is sent: the request ends with it."""

    def __init__(self, native: Any, request: int, body: Any) -> None:
        self._native, self._request, self._body = native, request, body

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except BaseException as error:
            self._end(type(error).__name__)
            raise
        self._end(False)

    def __len__(self) -> int:
        return len(self._body)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def close(self) -> None:
        """Ends the request and closes the application's body."""
        self._end(False)
        close = getattr(self._body, "close", None)
        if close is not None:
            close()

    def _end(self, error: bool | str) -> None:
        request, self._request = self._request, 0
        if request:
            self._native.request_end(request, error)
