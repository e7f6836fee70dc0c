"""wsgiref: the reference server, and servers that run applications through its handlers (Django's
runserver).
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `BaseHandler.run`, which calls the application and sends its body, `start_response`,
    and `log_exception`, which gets the application's exception."""
    handler = module.BaseHandler
    wsgi.serves(native, handler, "run", _asked)
    wsgi.notes_status(native, handler)
    wsgi.notes_error(native, handler, "log_exception")


def _asked(handler: Any, application: Any) -> wsgi.Asked:
    """A server's handler has the environment in `base_env`; CGI's is that of the process."""
    connection = getattr(getattr(handler, "request_handler", None), "connection", None)
    environ = getattr(handler, "base_env", None)
    return wsgi.of_environ(environ if environ and "REQUEST_METHOD" in environ else os.environ, connection)
