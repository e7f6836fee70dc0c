"""dashcam: the always-on black box of a running service.

    import dashcam
    dashcam.start(service="billy", slow="500ms")
    with dashcam.request("GET /checkout", user=42):
        with dashcam.span("db.query", rows=3):
            ...

How it works: the recorder is native (`dashcam._native`); this package adds decorators, the hooks
for gc, fork and exit, and the integrations that turn web requests into `request`s. Without the
native module (an interpreter it was not built for) everything here stays callable and does
nothing; `status()` says why.

What it promises: after `start` returned, nothing here raises because of the recorder. A wrong
setting given in code raises ValueError at `start`; a wrong environment variable is told on stderr
and passed over.
"""

from __future__ import annotations

import functools
import inspect
import json
from pathlib import Path
from typing import Any, Callable, TypeVar, overload

from dashcam import _process

try:
    from dashcam import _native
except ImportError as error:  # another interpreter, or not built
    from dashcam import _absent as _native  # type: ignore[no-redef]

    _native.why = _native.explain(error)

from dashcam import metric  # noqa: E402

__version__ = "0.1.0"
# Without `set`: who imports all names keeps Python's own.
__all__ = [
    "count", "counter", "distribution", "event", "flush", "gauge", "gauge_add", "histogram",
    "metric", "request", "snap", "span", "start", "status", "stop", "stream", "timing", "trace",
    "__version__",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Decorates:
    """Makes a context manager usable as a decorator, for plain and for async functions.

    Each call of the function enters a fresh one, so recursion and threads do not meet in it.
    """

    def __call__(self, function: F) -> F:
        kind, name = type(self), self.name  # type: ignore[attr-defined]
        attributes = self.attributes or {}  # type: ignore[attr-defined]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **kwargs: Any) -> Any:
                with kind(name, **attributes):
                    return await function(*args, **kwargs)

            return waiting  # type: ignore[return-value]

        @functools.wraps(function)
        def calling(*args: Any, **kwargs: Any) -> Any:
            with kind(name, **attributes):
                return function(*args, **kwargs)

        return calling  # type: ignore[return-value]


class _Span(_native.Span, _Decorates):  # type: ignore[misc]
    __slots__ = ()


class _Request(_native.Request, _Decorates):  # type: ignore[misc]
    __slots__ = ()


def request(name: str, **attributes: Any) -> _Request:
    """A unit of work whose latency is judged: `with request("GET /x"): ...`, or a decorator.

    Attributes are str, int, float or bool; others are recorded as their str(). At most 8, texts
    up to 64 bytes; what is cut is counted. Follows context variables, so asyncio tasks keep theirs.
    """
    return _Request(name, **attributes)


@overload
def span(name: F) -> F: ...
@overload
def span(name: str, **attributes: Any) -> _Span: ...
def span(name: Any, **attributes: Any) -> Any:
    """Nested work: `with span("db.query", rows=3): ...`; `@span` and `@span("name")` too."""
    if callable(name):
        return _Span(name.__qualname__)(name)
    return _Span(name, **attributes)


trace = span


def event(name: str, **attributes: Any) -> None:
    """Something that happened now, in the current request if there is one."""
    _native.event(name, **attributes)


# Metrics by name; see docs/metrics.md. The native functions themselves: a wrapper would cost more
# than they do. Bound handles are in `dashcam.metric`.
count = _native.count
gauge = _native.gauge
gauge_add = _native.gauge_add
timing = _native.timing
histogram = _native.histogram
distribution = _native.distribution
set = _native.set
counter = _native.counter


def flush() -> bool:
    """Takes a window of metrics now and waits until sinks have it, at most two seconds. False: it
    took longer, or nothing is being recorded."""
    return bool(_native.flush_metrics())


def __getattr__(name: str) -> Any:
    # Only who wants the handler pays for importing `logging`.
    if name == "LogHandler":
        from dashcam.log import LogHandler

        return LogHandler
    raise AttributeError(f"module 'dashcam' has no attribute {name!r}")


def start(**settings: Any) -> bool:
    """Starts recording; idempotent. All settings are keyword-only and optional.

    service, out, slow ("500ms", "checkout>250ms", several with commas), memory ("64MiB"),
    window, post, cooldown, keep, keep_bytes, rate_hz, budget_percent, switches, stacks, threads,
    on_error ("TimeoutError, errors(checkout)>5%/30s"), signal ("USR2"), per_day, repeat_after,
    decay, at_exit, hook, control, metrics_series, enabled; docs/triggers.md has them. Each has an environment variable DASHCAM_<NAME>, which wins. Returns whether recording
    was started by this call. Raises ValueError for a wrong value or an unknown setting.

    when: a callable (name, seconds, error) -> bool, asked at the end of each request on its own
    thread, whether to make a capture. It should cost microseconds; after ten exceptions it is asked
    no more.
    """
    return _process.start(_native, settings)


def stop() -> None:
    """Stops recording. What was recorded stays for a later `start` in the same process."""
    _native.stop()


def snap(reason: str = "snap") -> Path:
    """Saves a capture now and returns its path. Raises OSError when that is not possible."""
    return Path(_native.snap(reason))


class Stream:
    """A live stream of records, beside the black box. Ends with `close`, a `with` block, or `stop`."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def counts(self) -> dict[str, int]:
        """What became of the records it met: `filtered` were not asked for; of the `offered` ones
        some are `read`, `overwritten`, `dropped` or `torn`, the rest is still in the queue."""
        return self._native.counts()

    def error(self) -> str | None:
        """Why it ended by itself (its sink broke); None while it runs."""
        return self._native.error()

    def close(self) -> None:
        """Writes what is there and ends it; waits for a slow sink at most three seconds. Raises
        OSError when the sink had broken or takes nothing."""
        self._native.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def stream(sink: str | Path, **settings: str) -> Stream:
    """Streams records to a new file, or to a listening unix socket ("unix:/run/x.sock"), in the
    format of captures: `dashcam show` and `dashcam why` read it, also while it grows.

    kinds ("request,span,event,gc,sample,off_cpu,vital,metric"; default all), names (words or globs with
    commas), min_duration ("5ms"), on_full ("drop-newest", "overwrite-oldest", "block:5ms"), memory
    of its queue ("4MiB"). A slow or dead reader costs this stream its records and nobody else
    anything, unless it is asked to block. Up to 63 at once. Raises ValueError for a wrong setting,
    OSError when the sink cannot be opened or nothing is being recorded.
    """
    return Stream(_native.Stream(str(sink), settings))


def status() -> dict[str, Any]:
    """Settings, sources, losses, the sampler's own cost, captures written so far."""
    state: dict[str, Any] = json.loads(_native.status_json())
    state["integrations"] = _process.notices()
    return state


