"""hypercorn: one request for each call of the application."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import asgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `__call__` of the wrappers around applications. That of a WSGI application is called
    like an ASGI one, and runs it on a thread of the loop's executor.
    """
    asgi.begins(native, module.ASGIWrapper)
    asgi.begins(native, module.WSGIWrapper)


def patch_connections(native: Any, module: ModuleType) -> None:
    """Hooks `TCPServer.run`, the task of a connection: the tasks that it makes serve its
    transport.
    """

    def before(self: Any) -> None:
        native.asgi_on(self.writer)

    native.hook(module.TCPServer, "run", before=before)
