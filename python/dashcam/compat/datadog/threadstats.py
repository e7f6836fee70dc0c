"""For `datadog.threadstats`: `ThreadStats`, which sent its metrics to the vendor by HTTP. Here they
are dashcam's metrics, like those of `DogStatsd`, and go to the same sinks.

Names, defaults and meanings are the client's: nothing is counted before `start()`, timings are
seconds, `sample_rate` has no effect. Differences: no thread or greenlet of its own; a value with a
`timestamp` more than ten seconds off is counted now and reported in `dashcam.compat.refused`;
`host` is a tag; counts arrive as counts, and not as rates; histograms as values, and not as eight
gauges.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from time import perf_counter, time
from typing import Any, Callable, Iterator, TypeVar

from dashcam import _native
from dashcam.compat._shared import refuse, shown
from dashcam.compat.datadog.dogstatsd import DogStatsd

__all__ = ["ThreadStats"]
F = TypeVar("F", bound=Callable[..., Any])
# A time no further from now than this counts as now: the interval over which the client aggregates.
_NOW_S = 10.0


def warn_if_late(metric: Any, timestamp: Any) -> None:
    """Counts a time that differs from now as refused."""
    try:
        late = timestamp is not None and abs(float(timestamp) - time()) > _NOW_S
    except Exception:  # noqa: BLE001  whatever it is
        late = True
    if late:
        refuse("timestamp", f"{shown(metric)}: found the time {shown(timestamp)}, wanted now, or none; "
               "it is counted now")


def on_host(tags: Any, host: Any) -> Any:
    """The tags, with one for the host if there is one."""
    return [*(tags or ()), f"host:{host}"] if host else tags


class ThreadStats:
    """For `datadog.ThreadStats`."""

    def __init__(self, namespace: str = "", constant_tags: Any = None,
                 compress_payload: bool = False) -> None:
        self._client = DogStatsd(namespace=namespace or None, constant_tags=constant_tags)
        self.namespace, self.compress_payload = namespace, compress_payload
        self.constant_tags: list[str] = self._client.constant_tags
        self._disabled = True
        self._begun = False

    def start(self, flush_interval: float = 10, roll_up_interval: float = 10, device: Any = None,
              flush_in_thread: bool = True, flush_in_greenlet: bool = False,
              disabled: bool = False) -> None:
        """From here on calls count, unless `disabled`. Windows come once a second in any case."""
        self.flush_interval, self.roll_up_interval, self.device = flush_interval, roll_up_interval, device
        self._disabled, self._begun = disabled, True

    def stop(self) -> None:
        """Does nothing: there is no thread to end, and calls count as before."""

    def _is_on(self, metric: Any, timestamp: Any = None) -> bool:
        if self._disabled:
            if not self._begun:
                refuse("misuse", f"ThreadStats, {shown(metric)}: found no start(), wanted one before")
            return False
        if timestamp:
            warn_if_late(metric, timestamp)
        return True

    def event(self, title: str, message: str, alert_type: str | None = None,
              aggregation_key: str | None = None, source_type_name: str | None = None,
              date_happened: int | None = None, priority: str | None = None, tags: Any = None,
              hostname: str | None = None) -> None:
        """Sends an event to the server, and records it in the black box."""
        if self._is_on(title):
            self._client.event(title, message, alert_type, aggregation_key, source_type_name,
                               date_happened, priority, tags, hostname)

    def gauge(self, metric_name: str, value: float, timestamp: float | None = None, tags: Any = None,
              sample_rate: float = 1, host: str | None = None) -> None:
        """Sets a gauge."""
        if self._is_on(metric_name, timestamp):
            self._client.gauge(metric_name, value, on_host(tags, host))

    def set(self, metric_name: str, value: Any, timestamp: float | None = None, tags: Any = None,
            sample_rate: float = 1, host: str | None = None) -> None:
        """Records a member of a set."""
        if self._is_on(metric_name, timestamp):
            self._client.set(metric_name, value, on_host(tags, host))

    def increment(self, metric_name: str, value: float = 1, timestamp: float | None = None,
                  tags: Any = None, sample_rate: float = 1, host: str | None = None) -> None:
        """Adds to a counter."""
        if self._is_on(metric_name, timestamp):
            self._client.increment(metric_name, value, on_host(tags, host))

    def decrement(self, metric_name: str, value: float = 1, timestamp: float | None = None,
                  tags: Any = None, sample_rate: float = 1, host: str | None = None) -> None:
        """Subtracts from a counter."""
        if self._is_on(metric_name, timestamp):
            self._client.decrement(metric_name, value, on_host(tags, host))

    def histogram(self, metric_name: str, value: float, timestamp: float | None = None,
                  tags: Any = None, sample_rate: float = 1, host: str | None = None) -> None:
        """Records a value."""
        if self._is_on(metric_name, timestamp):
            self._client.histogram(metric_name, value, on_host(tags, host))

    def distribution(self, metric_name: str, value: float, timestamp: float | None = None,
                     tags: Any = None, sample_rate: float = 1, host: str | None = None) -> None:
        """Records a value for percentiles over all hosts."""
        if self._is_on(metric_name, timestamp):
            self._client.distribution(metric_name, value, on_host(tags, host))

    def timing(self, metric_name: str, value: float, timestamp: float | None = None,
               tags: Any = None, sample_rate: float = 1, host: str | None = None) -> None:
        """Records a duration, in the caller's unit."""
        if self._is_on(metric_name, timestamp):
            self._client.timing(metric_name, value, on_host(tags, host))

    @contextmanager
    def timer(self, metric_name: str, sample_rate: float = 1, tags: Any = None,
              host: str | None = None) -> Iterator[None]:
        """Times a block, in seconds, also a block that raises."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.timing(metric_name, perf_counter() - begin, None, tags, sample_rate, host)

    def timed(self, metric_name: str, sample_rate: float = 1, tags: Any = None,
              host: str | None = None) -> Callable[[F], F]:
        """A decorator: times the calls of a function, in seconds."""
        def wrapper(func: F) -> F:
            @functools.wraps(func)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with self.timer(metric_name, sample_rate, tags, host):
                    return func(*args, **kwargs)

            return wrapped  # type: ignore[return-value]

        return wrapper

    def flush(self, timestamp: float | None = None) -> bool | None:
        """Takes a window now, and waits until it is sent: at most two seconds. False: disabled."""
        if self._disabled:
            return False
        _native.flush_metrics()
        return None
