"""anyio's worker threads, where Starlette and FastAPI run endpoints that are not async: work keeps
its request. Its time in the queue includes the wait for a token of the limiter."""

from __future__ import annotations

from typing import Any


def patch(native: Any, module: Any) -> None:
    """Hooks `anyio.to_thread.run_sync`. Without a current request the call is passed on
    unchanged.
    """
    native.hook(module, "run_sync", before=native.hand_over_first)
