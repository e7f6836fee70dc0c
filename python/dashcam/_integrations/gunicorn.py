"""gunicorn: every worker calls its application through `wsgi`; wrapped when the worker loads it."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `Worker.load_wsgi`. Sync and gthread workers inherit it; async workers' applications
    (uvicorn's worker) are no WSGI and keep theirs."""
    original = module.Worker.load_wsgi

    @functools.wraps(original)
    def load_wsgi(self: Any) -> Any:
        native.is_on()  # in the worker: it begins its own recording before its first request
        result = original(self)
        application = getattr(self, "wsgi", None)
        kind = type(self).__module__
        if callable(application) and kind.startswith("gunicorn.workers."):
            self.wsgi = functools.partial(native.wsgi_call, application)
        return result

    module.Worker.load_wsgi = load_wsgi
