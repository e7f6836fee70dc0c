"""cheroot, CherryPy's server: a request is a call of the server's application, its wait for a thread included."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Server.__init__` and `Gateway.respond`."""
    original = module.Server.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.wsgi_app = wsgi.of_server(native, self.wsgi_app)

    module.Server.__init__ = __init__
    module.Gateway.respond = wsgi.serves(module.Gateway.respond, lambda gateway: gateway.req.conn.socket)
