"""Thread pools: work handed to an executor keeps its request, and its time in the queue is
known.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `ThreadPoolExecutor.submit`. Without a current request the call is passed on
    unchanged.
    """
    native.hook(module.ThreadPoolExecutor, "submit", before=native.hand_over_second)
