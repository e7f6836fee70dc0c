"""cheroot, CherryPy's server: a request is a call of the server's application, its wait for a thread included."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Server.__init__` and `Gateway.respond`, which a thread calls for each request."""
    wsgi.wrap_application(native, module.Server, "wsgi_app")
    module.Gateway.respond = wsgi.serves(module.Gateway.respond, lambda gateway: gateway.req.conn.socket)
