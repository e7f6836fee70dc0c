"""waitress: a request is a call of the server's application, its wait for a thread included."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `BaseWSGIServer.__init__`."""
    wsgi.wrap_application(native, module.BaseWSGIServer, "application")


def patch_tasks(native: Any, module: ModuleType) -> None:
    """Wraps `WSGITask.execute`, which a thread calls for each request."""
    module.WSGITask.execute = wsgi.serves(module.WSGITask.execute, lambda task: task.channel.socket)
