"""http.server: a request from the parsed request line until its `do_GET` (or other) returns.

Waiting for the next request on a kept-alive connection is not part of it. Servers that build on
`BaseHTTPRequestHandler` and handle requests themselves (werkzeug, wsgiref) begin theirs elsewhere;
this hooks the handler's own loop, which they do not use.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming

# The handler that is in `handle_one_request`, and its request.
_handling: ContextVar[list[Any] | None] = ContextVar("dashcam_http_server", default=None)


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `parse_request` (begin) and `handle_one_request` (end) of the base class."""

    def after_parsing(parsed: Any, self: Any) -> None:
        handling = _handling.get()
        expected = handling is not None and handling[0] is self
        if parsed and expected and native.is_on() and not native.current_request():
            request = native.request_arrives(self.command, self.path, False, self.connection)
            handling[1] = request  # type: ignore[index]
            incoming.mapping(native, request, self.headers)

    def before(self: Any) -> None:
        _handling.set([self, 0])

    def end(error: bool | str, self: Any) -> None:
        handling = _handling.get()
        if handling is not None and handling[0] is self:
            _handling.set(None)
            if handling[1]:
                native.request_end(handling[1], error)

    def after(result: Any, self: Any) -> None:
        end(False, self)

    def failed(kind: str, self: Any) -> None:
        end(kind or True, self)

    handler = module.BaseHTTPRequestHandler
    native.hook(handler, "parse_request", after=after_parsing)
    native.hook(handler, "handle_one_request", before=before, after=after, failed=failed)
