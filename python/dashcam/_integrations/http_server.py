"""http.server: a request from the parsed request line until its `do_GET` (or other) returns.

Waiting for the next request on a kept-alive connection is not part of it. Servers that build on
`BaseHTTPRequestHandler` and handle requests themselves (werkzeug, wsgiref) begin theirs elsewhere;
the handler's own loop is what is wrapped here, and it is not theirs.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `parse_request` (begin) and `handle_one_request` (end) of the base class."""
    handler = module.BaseHTTPRequestHandler
    parse, handle = handler.parse_request, handler.handle_one_request

    @functools.wraps(parse)
    def parse_request(self: Any) -> Any:
        parsed = parse(self)
        expected = getattr(self, "_dashcam_expects", False)
        if parsed and expected and native.is_on() and not native.current_request():
            connection = self.connection
            request = native.request_arrives(self.command, self.path, False, connection)
            self._dashcam_request = request
            incoming.mapping(native, self._dashcam_request, self.headers)
        return parsed

    @functools.wraps(handle)
    def handle_one_request(self: Any) -> None:
        self._dashcam_expects, self._dashcam_request = True, 0
        failed: bool | str = False
        try:
            handle(self)
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            self._dashcam_expects = False
            if self._dashcam_request:
                native.request_end(self._dashcam_request, failed)

    handler.parse_request = parse_request
    handler.handle_one_request = handle_one_request
