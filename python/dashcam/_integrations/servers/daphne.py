"""daphne: one request for each call of the application.

How it works: the server gets a native call of ours in place of the application, and calls the
application through it: without a frame, and only the server holds it. The application itself is not
changed.

What is missing on purpose: the arrival of a request. The tasks that a connection makes do not know
its transport.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Hooks the making of a server."""

    def before(self: Any, *given: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if given:
            return (self, functools.partial(native.asgi_call, given[0]), *given[1:]), named
        return (self,), {**named, "application": functools.partial(native.asgi_call, named["application"])}

    native.hook(module.Server, "__init__", before=before)
