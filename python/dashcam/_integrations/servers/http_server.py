"""http.server: a request from the parsed request line until its `do_GET` (or other) returns.

Waiting for the next request on a kept-alive connection is not part of it. A status of 500 and more
is a failure. werkzeug's development server uses the handler's own loop, which is hooked here, and
so its requests are these, too. Servers that handle requests in a loop of their own (wsgiref) begin
theirs elsewhere.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming

# The handler that is in `handle_one_request`, and its request.
_handling: ContextVar[list[Any] | None] = ContextVar("dashcam_http_server", default=None)


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `parse_request` (begin), `send_response` (status) and `handle_one_request` (end) of the
    base class."""

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

    def before_sending(self: Any, code: int, *args: Any, **kwargs: Any) -> None:
        request = native.current_request()
        if request and code >= 500:
            native.request_failed(request, "")

    handler = module.BaseHTTPRequestHandler
    native.hook(handler, "parse_request", after=after_parsing)
    native.hook(handler, "send_response", before=before_sending)
    native.hook(handler, "handle_one_request", before=before, after=after, failed=failed)
