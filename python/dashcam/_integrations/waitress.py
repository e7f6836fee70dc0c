"""waitress: a request is a call of the server's application, its wait for a thread included."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `BaseWSGIServer.__init__`."""
    original = module.BaseWSGIServer.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.application = wsgi.of_server(native, self.application)

    module.BaseWSGIServer.__init__ = __init__


def patch_tasks(native: Any, module: ModuleType) -> None:
    """Wraps `WSGITask.execute`, which a thread calls for each request."""
    module.WSGITask.execute = wsgi.serves(module.WSGITask.execute, lambda task: task.channel.socket)
