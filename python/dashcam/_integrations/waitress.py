"""waitress: a request is a call of the server's application. Its own queue before that is not part of it."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `BaseWSGIServer.__init__`."""
    original = module.BaseWSGIServer.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.application = functools.partial(native.wsgi_call, self.application)

    module.BaseWSGIServer.__init__ = __init__
