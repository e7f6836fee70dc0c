"""Bound handles of metrics: looked up once, then counting is cheap.

    from dashcam import metric
    orders = metric.counter("orders", tags={"region": "eu"})
    orders.inc()                                   # or inc(3), inc(-1), inc(0.5)
    metric.gauge("depth").set(7)                   # and .add(-1)
    metric.timing("db.query").record(1.25)         # milliseconds; histogram and distribution too
    metric.set("users").add("ann")
    with metric.timed("db.query"): ...             # a timing of a block; also a decorator

Every function takes `tags={}` and `rate=1` (the share of the calls that are let through; sums and
counts are scaled up by it). Handles are safe in threads, signal handlers and forked children, and
may be made before `dashcam.start()`. Calls never wait, and raise only for a wrong type.
"""

from __future__ import annotations

from time import perf_counter_ns

from dashcam import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["counter", "distribution", "gauge", "histogram", "set", "timed", "timing"]

counter = _native.counter
gauge = _native.gauge_handle
timing = _native.timing_handle
histogram = _native.histogram_handle
distribution = _native.distribution_handle
set = _native.set_handle


class timed:
    """`with timed("db.query"): ...` records the block's milliseconds, also when it raises; as a
    decorator those of each call, of plain and of async functions. It may be used again, also inside
    of itself, but a `with` block of it belongs to one thread at a time."""

    __slots__ = ("_began", "_timing")

    def __init__(self, name: str, *, tags: dict[str, Any] | None = None, rate: float = 1) -> None:
        self._timing = timing(name, tags=tags, rate=rate)
        self._began: list[int] = []

    def __enter__(self) -> timed:
        self._began.append(perf_counter_ns())
        return self

    def __exit__(self, *exc: object) -> None:
        self._timing.record((perf_counter_ns() - self._began.pop()) / 1e6)

    def __call__(self, function: F) -> F:
        import functools  # these take longer to import than all else here, and few decorate
        import inspect

        record = self._timing.record
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **kwargs: Any) -> Any:
                began = perf_counter_ns()
                try:
                    return await function(*args, **kwargs)
                finally:
                    record((perf_counter_ns() - began) / 1e6)

            return waiting  # type: ignore[return-value]

        @functools.wraps(function)
        def calling(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                record((perf_counter_ns() - began) / 1e6)

        return calling  # type: ignore[return-value]
