"""waitress: a request is a call of `WSGITask.execute`, its wait for a thread included."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch_tasks(native: Any, module: ModuleType) -> None:
    """Hooks `WSGITask.execute`, which a thread calls for each request."""
    wsgi.serves(native, module.WSGITask, "execute", _asked, _failed)


def _asked(task: Any) -> wsgi.Asked:
    request, headers = task.request, task.request.headers
    return wsgi.Asked(
        request.command,
        request.path or "/",
        task.channel.socket,
        headers.get("TRACEPARENT"),
        headers.get("TRACESTATE"),
    )


def _failed(task: Any) -> bool:
    return str(task.status).startswith("5")
