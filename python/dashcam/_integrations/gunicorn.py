"""gunicorn: a request is a call of a worker's `handle_request`."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Worker.load_wsgi`, which every worker calls before its first request."""
    original = module.Worker.load_wsgi

    @functools.wraps(original)
    def load_wsgi(self: Any) -> Any:
        native.is_on()  # in the worker: it begins its own recording now
        return original(self)

    module.Worker.load_wsgi = load_wsgi


def patch_sync(native: Any, module: ModuleType) -> None:
    """Wraps `SyncWorker.handle_request(listener, req, client, addr)`."""
    _serves(native, module.SyncWorker, lambda self, listener, req, client, *more: _asked(req, client))


def patch_gthread(native: Any, module: ModuleType) -> None:
    """Wraps `ThreadWorker.handle_request(req, conn)`."""
    _serves(native, module.ThreadWorker, lambda self, req, conn, *more: _asked(req, conn.sock))


def patch_async(native: Any, module: ModuleType) -> None:
    """Wraps `AsyncWorker.handle_request(listener_name, req, sock, addr)`: gevent's and eventlet's workers."""
    _serves(native, module.AsyncWorker, lambda self, listener, req, sock, *more: _asked(req, sock))


def patch_response(native: Any, module: ModuleType) -> None:
    """Wraps `Response.start_response`, which the application calls."""
    module.Response.start_response = wsgi.notes_status(native, module.Response.start_response)


def _serves(native: Any, worker: Any, asked: Any) -> None:
    worker.handle_request = wsgi.serves(native, worker.handle_request, asked)


def _asked(req: Any, connection: Any) -> wsgi.Asked:
    parents = [value for name, value in req.headers if name == "TRACEPARENT"]
    if len(parents) != 1:
        return wsgi.Asked(req.method, req.path or "/", connection)
    state = ",".join(value for name, value in req.headers if name == "TRACESTATE")
    return wsgi.Asked(req.method, req.path or "/", connection, parents[0], state)
