"""Thread pools: work handed to an executor keeps its request, and its time in the queue is
known.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `ThreadPoolExecutor.submit`. Without a current request the call is passed on
    unchanged.
    """

    def before(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        request = native.current_request()
        return ((self, native.work(request, fn), *args), kwargs) if request else None

    native.hook(module.ThreadPoolExecutor, "submit", before=before)
