"""gevent.pywsgi: a request is a call of `WSGIHandler.handle_one_response`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `handle_one_response`, and `handle_error`, which gets the application's exception."""
    handler = module.WSGIHandler
    wsgi.serves(native, handler, "handle_one_response", _asked, _failed)
    wsgi.notes_error(native, handler, "handle_error")


def _asked(handler: Any) -> wsgi.Asked:
    return wsgi.of_environ(handler.environ, handler.socket)


def _failed(handler: Any) -> bool:
    """Its status is bytes, or None if a response was made without one."""
    return bytes(handler.status or b"").startswith(b"5")
