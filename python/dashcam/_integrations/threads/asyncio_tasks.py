"""asyncio: the running task of a loop's thread. Nothing of it is patched: the sampler gets the
place where asyncio keeps its running tasks as soon as that exists."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(native: Any, module: ModuleType) -> None:
    """`asyncio.tasks` has made, or found, the holder of the running tasks."""
    native.asyncio_is_here()
