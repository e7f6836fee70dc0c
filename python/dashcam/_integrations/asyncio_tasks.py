"""asyncio: which task runs on a loop's thread. Nothing of it is patched: the sampler is told where
asyncio keeps its running tasks as soon as it does."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """`asyncio.tasks` has made, or found, what holds the running tasks."""
    native.asyncio_is_here()
