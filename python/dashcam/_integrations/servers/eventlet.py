"""eventlet's own server: a request is a call of `HttpProtocol.handle_one_response`.

Missing on purpose: whether it failed. The server keeps that to itself; a framework (Flask, Django)
says it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `HttpProtocol.handle_one_response`, which calls the application and sends its body."""
    wsgi.serves(native, module.HttpProtocol, "handle_one_response", _asked)


def _asked(handler: Any) -> wsgi.Asked:
    return wsgi.of_environ(handler.environ, getattr(handler, "connection", None))
