"""gunicorn: a request is a call of a worker's `handle_request`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Worker.load_wsgi`, which every worker calls before its first request."""

    def before(self: Any) -> None:
        native.is_on()  # in the worker: it begins its own recording now

    native.hook(module.Worker, "load_wsgi", before=before)


def patch_sync(native: Any, module: ModuleType) -> None:
    """Hooks `SyncWorker.handle_request(listener, req, client, addr)`."""
    _serves(native, module.SyncWorker, native.parsed(2, 3))


def patch_gthread(native: Any, module: ModuleType) -> None:
    """Hooks `ThreadWorker.handle_request(req, conn)`."""
    _serves(native, module.ThreadWorker, native.parsed(1, 2, "sock", "client"))


def patch_async(native: Any, module: ModuleType) -> None:
    """Hooks `AsyncWorker.handle_request(listener_name, req, sock, addr)`: gevent's and eventlet's
    workers.
    """
    _serves(native, module.AsyncWorker, native.parsed(2, 3))


def patch_response(native: Any, module: ModuleType) -> None:
    """Hooks `Response.start_response`, which the application calls."""
    wsgi.notes_status(native, module.Response)


def _serves(native: Any, worker: Any, asked: Any) -> None:
    wsgi.serves(native, worker, "handle_request", asked)
