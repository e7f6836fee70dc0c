"""anyio's worker threads, where Starlette and FastAPI run endpoints that are not async: work keeps
its request. Its time in the queue includes the wait for a token of the limiter."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Callable

from dashcam._integrations import executor


def patch(native: Any, module: ModuleType) -> None:
    """Wraps `anyio.to_thread.run_sync`. Without a current request the call is passed on as is."""
    original = module.run_sync

    @functools.wraps(original)
    async def run_sync(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        request = native.current_request()
        if request:
            func = executor.task(native, request, func)
        return await original(func, *args, **kwargs)

    module.run_sync = run_sync
