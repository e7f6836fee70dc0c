"""The surface of the PyPI package `statsd` 4 over dashcam's metrics.

    from dashcam.compat import statsd
    client = statsd.StatsClient("localhost", 8125, prefix="shop")
    client.incr("orders")

Names, defaults and meanings are those of `statsd`; docs/metrics.md, "Import swap", lists the
differences: the environment names the server, values are sent in windows of a second, and nothing
here raises. Missing on purpose: `statsd.defaults.env` and `statsd.defaults.django`.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from time import perf_counter
from typing import Any, Callable, TypeVar

from dashcam import _native
from dashcam.compat._shared import as_float, refuse, same_server, shown, timed_calls

__all__ = ["StatsClient", "TCPStatsClient", "UnixSocketStatsClient"]
# The version of the package with this API.
VERSION = (4, 0, 1)

F = TypeVar("F", bound=Callable[..., Any])
# At most this many calls are kept by a pipeline; it replays them early when there are more.
_MOST = 10_000


class Timer:
    """Times a block or the calls of a function, and records milliseconds. `ms`: the last
    block's.
    """

    def __init__(self, client: _Base, stat: str, rate: float = 1) -> None:
        self.client = client
        self.stat = stat
        self.rate = rate
        self.ms: float | None = None
        self._sent = False
        self._begin: float | None = None

    def __call__(self, f: F) -> F:
        # A partial has no name: its function has.
        named: Any = f
        while isinstance(named, functools.partial):
            named = named.func
        return timed_calls(f, self._note, named)

    def _note(self, begin: float) -> None:
        self.client.timing(self.stat, 1000.0 * (perf_counter() - begin), self.rate)

    def __enter__(self) -> Timer:
        return self.start()

    def __exit__(self, typ: Any, value: Any, tb: Any) -> None:
        self.stop()

    def start(self) -> Timer:
        """Begins again."""
        self.ms, self._sent, self._begin = None, False, perf_counter()
        return self

    def stop(self, send: bool = True) -> Timer:
        """Ends the block; with `send` false the duration waits for `send()`."""
        if self._begin is None:
            refuse("misuse", f"timer {shown(self.stat)}: stop() before start()")
            return self
        self.ms = 1000.0 * (perf_counter() - self._begin)
        if send:
            self.send()
        return self

    def send(self) -> None:
        """Records the duration, once."""
        if self.ms is None or self._sent:
            why = "before stop()" if self.ms is None else "twice"
            refuse("misuse", f"timer {shown(self.stat)}: send() {why}")
            return
        self._sent = True
        self.client.timing(self.stat, self.ms, self.rate)


class _Base:
    """The metrics; `_put` decides where they go."""

    _prefix: str | None = None

    def _put(self, function: Callable[..., None], stat: str, value: Any, rate: float) -> None:
        raise NotImplementedError

    def timer(self, stat: str, rate: float = 1) -> Timer:
        """A context manager and decorator."""
        return Timer(self, stat, rate)

    def timing(self, stat: str, delta: float | timedelta, rate: float = 1) -> None:
        """A duration: milliseconds, or a timedelta."""
        if isinstance(delta, timedelta):
            delta = delta.total_seconds() * 1000.0
        self._put(_native.timing, stat, delta, rate)

    def incr(self, stat: str, count: float = 1, rate: float = 1) -> None:
        """Adds to a counter."""
        self._put(_native.count, stat, count, rate)

    def decr(self, stat: str, count: float = 1, rate: float = 1) -> None:
        """Subtracts from a counter."""
        try:
            less = -(count if isinstance(count, (int, float)) else float(count))
        except Exception:  # noqa: BLE001
            refuse("value", f"decr({shown(stat)}): found {shown(count)}, wanted a number")
            return
        self._put(_native.count, stat, less, rate)

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False) -> None:
        """Sets a gauge; with `delta` changes it."""
        self._put(_native.gauge_add if delta else _native.gauge, stat, value, rate)

    def set(self, stat: str, value: Any, rate: float = 1) -> None:
        """Records a member of a set."""
        self._put(_native.set, stat, value, rate)


class _Client(_Base):
    """Sends to dashcam's metrics."""

    def _put(self, function: Callable[..., None], stat: str, value: Any, rate: float) -> None:
        try:
            name = f"{self._prefix}.{stat}" if self._prefix else stat
            if function is _native.set:
                value = str(value)
            if rate >= 1:
                function(name, value)
            elif rate > 0:
                function(name, value, rate=rate)
        except Exception as error:  # noqa: BLE001  a value's own methods may raise anything
            if function is not _native.set and (other := as_float(value)) is not None:
                self._put(function, stat, other, rate)
                return
            refuse("value", f"{shown(stat)}: {shown(error, str)}")

    def close(self) -> None:
        """Nothing is open."""

    def pipeline(self) -> Pipeline:
        """Calls that are counted together, at `send()` or at the end of its `with` block."""
        return Pipeline(self)


class StatsClient(_Client):
    """For `statsd.StatsClient`. `prefix` has an effect; host, port and ipv6 are compared with the
    environment, which decides; DASHCAM_STATSD_PACKET replaces maxudpsize."""

    def __init__(self, host: str = "localhost", port: int = 8125, prefix: str | None = None,
                 maxudpsize: int = 512, ipv6: bool = False) -> None:
        self._prefix = prefix
        name = f"[{host}]" if ":" in str(host) else host
        same_server(f"udp://{name}:{port}", (host, port) == ("localhost", 8125))


class TCPStatsClient(_Client):
    """For `statsd.TCPStatsClient`: lines go to the environment's server, so not by TCP."""

    def __init__(self, host: str = "localhost", port: int = 8125, prefix: str | None = None,
                 timeout: float | None = None, ipv6: bool = False) -> None:
        self._prefix = prefix
        same_server(f"udp://{host}:{port}", (host, port) == ("localhost", 8125))

    def connect(self) -> None:
        """Nothing to connect."""

    def reconnect(self) -> None:
        """Nothing to connect."""


class UnixSocketStatsClient(_Client):
    """For `statsd.UnixSocketStatsClient`."""

    def __init__(self, socket_path: str, prefix: str | None = None,
                 timeout: float | None = None) -> None:
        self._prefix = prefix
        same_server(f"unixstream://{socket_path}", False)

    def connect(self) -> None:
        """Nothing to connect."""

    def reconnect(self) -> None:
        """Nothing to connect."""


class Pipeline(_Base):
    """Keeps calls until `send()`; after 10,000 it replays the kept ones."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._kept: list[tuple[Callable[..., None], str, Any, float]] = []

    def _put(self, function: Callable[..., None], stat: str, value: Any, rate: float) -> None:
        self._kept.append((function, stat, value, rate))
        if len(self._kept) >= _MOST:
            self.send()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, typ: Any, value: Any, tb: Any) -> None:
        self.send()

    def send(self) -> None:
        """Counts the kept calls."""
        kept, self._kept = self._kept, []
        for call in kept:
            self._client._put(*call)

    def close(self) -> None:
        """Nothing is open."""

    def pipeline(self) -> Pipeline:
        """A pipeline into this one."""
        return Pipeline(self)
