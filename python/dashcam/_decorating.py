"""Spans and requests as decorators, for plain and for async functions.

Each call of the function enters a new one, so recursion and threads do not share one. For a
generator function only the call is measured, which makes the generator and runs none of it.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable


def decorate(again: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with one of `again()` around each call."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            with again():
                return await function(*args, **kwargs)

        return waiting

    @functools.wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        with again():
            return function(*args, **kwargs)

    return calling
