"""For `datadog.dogstatsd`: the surface of its DogStatsD client (PyPI package `datadog` 0.56) over
dashcam's metrics.

    from dashcam.compat.datadog import statsd          # or DogStatsd
    statsd.increment("orders", tags=["region:eu"])

Names, defaults and meanings are the client's; docs/metrics.md, "Import swap", lists the
differences: the environment names the server, values are sent in windows of a second, nothing
raises. dashcam has its own buffering, aggregation, telemetry, sockets and background sender: the
client's switches for them exist and do nothing.

Cost: by name without tags two Python calls; tags are read once for each series, up to 10,000.
"""

from __future__ import annotations

import json
import os
from time import perf_counter
from typing import Any, Callable, Iterable, List, Optional, TypeVar

from dashcam import _native
from dashcam.compat._shared import as_float, refuse, same_server, shown, timed_calls

__all__ = ["DogStatsd", "statsd"]
DEFAULT_HOST, DEFAULT_PORT = "localhost", 8125

F = TypeVar("F", bound=Callable[..., Any])
_Tags = Optional[List[str]]
# At most this many series with remembered tags; for further ones the tags are read at each call.
_MOST = 10_000
# Kind -> the call by name, the maker of handles, the handle's method.
_KINDS: dict[str, tuple[Callable[..., None], Callable[..., Any], str]] = {
    "count": (_native.count, _native.counter, "inc"),
    "gauge": (_native.gauge, _native.gauge_handle, "set"),
    "timing": (_native.timing, _native.timing_handle, "record"),
    "histogram": (_native.histogram, _native.histogram_handle, "record"),
    "distribution": (_native.distribution, _native.distribution_handle, "record"),
    "set": (_native.set, _native.set_handle, "add"),
}


def _pairs(tags: Iterable[str]) -> dict[str, str]:
    """["k:v", "flag"] -> {"k": "v", "flag": ""}. A key with two values keeps the last."""
    found: dict[str, str] = {}
    for tag in tags:
        key, _, value = str(tag).partition(":")
        if found.get(key, value) != value:
            refuse("tags", f"tag {key!r}: found {found[key]!r} and {value!r}, wanted one value; "
                   "the last one is used")
        found[key] = value
    return found


class _Timed:
    """Times a block or the calls of a function. `elapsed`: the last duration, in the unit sent."""

    def __init__(self, statsd: DogStatsd, metric: str | None = None, tags: Any = None,
                 sample_rate: float | None = 1, use_ms: bool | None = None) -> None:
        self.statsd = statsd
        self.timing_func = statsd.timing
        self.metric = metric
        self.tags = tags
        self.sample_rate = sample_rate
        self.use_ms = use_ms
        self.elapsed: float | None = None
        self._begin: float | None = None

    def __call__(self, func: F) -> F:
        if not self.metric:
            self.metric = f"{func.__module__}.{getattr(func, '__name__', '?')}"
        return timed_calls(func, self._note)

    def __enter__(self) -> _Timed:
        self._begin = perf_counter()
        return self

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self._begin is None or not self.metric:
            why = "stop() before start()" if self.metric else "found no metric, wanted its name"
            refuse("misuse", f"timed {shown(self.metric)}: {why}")
            return
        self._note(self._begin)

    def _note(self, begin: float) -> None:
        elapsed = perf_counter() - begin
        use_ms = self.statsd.use_ms if self.use_ms is None else self.use_ms
        # Seconds unless requested otherwise: the client's own default, for which dashboards are
        # made.
        self.elapsed = round(1000 * elapsed) if use_ms else elapsed
        self.timing_func(self.metric or "", self.elapsed, self.tags, self.sample_rate)

    def start(self) -> None:
        """Begins the block."""
        self.__enter__()

    def stop(self) -> None:
        """Ends the block."""
        self.__exit__(None, None, None)


class DogStatsd:
    """For `datadog.DogStatsd`. These arguments have an effect: namespace, constant_tags, use_ms,
    default_sample_rate. host, port and socket_path are compared with the environment, which
    decides. `cardinality` is not sent."""

    OK, WARNING, CRITICAL, UNKNOWN = range(4)
    CARDINALITY_NONE, CARDINALITY_LOW = "none", "low"
    CARDINALITY_ORCHESTRATOR, CARDINALITY_HIGH = "orchestrator", "high"

    def __init__(
        self, host: str | None = None, port: int | None = None, max_buffer_size: int | None = None,
        flush_interval: float = 0.3, disable_aggregation: bool = True,
        disable_buffering: bool = True, namespace: str | None = None, constant_tags: _Tags = None,
        use_ms: bool = False, use_default_route: bool = False, socket_path: str | None = None,
        default_sample_rate: float = 1, disable_telemetry: bool = False,
        telemetry_min_flush_interval: int = 10, telemetry_host: str | None = None,
        telemetry_port: int | None = None, telemetry_socket_path: str | None = None,
        max_buffer_len: int = 0, max_metric_samples_per_context: int = 0,
        container_id: str | None = None, origin_detection_enabled: bool = True,
        cardinality: str | None = None, socket_timeout: float | None = 0,
        telemetry_socket_timeout: float | None = 0, disable_background_sender: bool = True,
        sender_queue_size: int = 0, sender_queue_timeout: float = 0,
        sender_queue_expiry_seconds: float | None = 10.0, track_instance: bool = True,
        socket_connect_retry: bool = False,
    ) -> None:
        self.host, self.port, self.socket_path = host, port, socket_path
        self.namespace, self.use_ms, self.cardinality = namespace, use_ms, cardinality
        self.default_sample_rate = default_sample_rate
        self.disable_buffering = disable_buffering
        # DD_TAGS, DD_ENV and related variables are read by the sink (docs/statsd.md).
        named = [tag for tag in os.environ.get("DATADOG_TAGS", "").split(",") if tag]
        self.constant_tags: list[str] = [*(constant_tags or []), *named]
        self._known: dict[str, dict[Any, Callable[[Any], None]]] = {kind: {} for kind in _KINDS}
        if host or port or socket_path:
            self._compare()

    def _compare(self) -> None:
        if self.socket_path:
            path = str(self.socket_path)
            same_server(path if "://" in path else f"unix://{path}", False)
        else:
            same_server(f"udp://{self.host or 'localhost'}:{self.port or 8125}", False)

    def _note(self, kind: str, metric: str, value: Any, tags: Any, rate: float | None) -> bool:
        """Into dashcam's metrics. Always true: nothing here can fail to be sent later."""
        if value is None:
            return True
        try:
            if rate is None:
                rate = self.default_sample_rate
            constant, namespace = self.constant_tags, self.namespace
            if rate == 1 and not tags and not constant and not namespace:
                _KINDS[kind][0](metric, value)
                return True
            if rate <= 0:
                return True
            known = self._known[kind]
            key = (metric, tuple(tags) if tags else (), tuple(constant), namespace, rate)
            found = known.get(key)
            if found is None:
                name = f"{namespace}.{metric}" if namespace else metric
                joined = _pairs([*constant, *(tags or ())])
                _, bind, method = _KINDS[kind]
                found = getattr(bind(name, tags=joined, rate=min(rate, 1)), method)
                if len(known) < _MOST:
                    known[key] = found
            found(value)
        except Exception as error:  # noqa: BLE001  a value's own methods may raise anything
            if kind != "set" and (other := as_float(value)) is not None:
                return self._note(kind, metric, other, tags, rate)
            refuse("value", f"{shown(metric)}: {shown(error, str)}")
        return True

    def increment(self, metric: str, value: float = 1, tags: _Tags = None,
                  sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Adds to a counter."""
        return self._note("count", metric, value, tags, sample_rate)

    def decrement(self, metric: str, value: float = 1, tags: _Tags = None,
                  sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Subtracts from a counter."""
        try:
            less = -(value if isinstance(value, (int, float)) else float(value)) if value is not None else None
        except Exception:  # noqa: BLE001
            refuse("value", f"decrement({shown(metric)}): found {shown(value)}, wanted a number")
            return True
        return self._note("count", metric, less, tags, sample_rate)

    def count(self, metric: str, value: float, tags: _Tags = None,
              sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Adds to a counter."""
        return self._note("count", metric, value, tags, sample_rate)

    def count_with_timestamp(self, metric: str, value: float, timestamp: int = 0,
                             tags: _Tags = None, sample_rate: float | None = None,
                             cardinality: str | None = None) -> bool:
        """Adds to a counter now: a time of its own is not sent, and counted as refused."""
        self._timeless(metric, timestamp)
        return self._note("count", metric, value, tags, sample_rate)

    def gauge(self, metric: str, value: float, tags: _Tags = None,
              sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Sets a gauge."""
        return self._note("gauge", metric, value, tags, sample_rate)

    def gauge_with_timestamp(self, metric: str, value: float, timestamp: int, tags: _Tags = None,
                             sample_rate: float | None = None,
                             cardinality: str | None = None) -> bool:
        """Sets a gauge now: a time of its own is not sent, and counted as refused."""
        self._timeless(metric, timestamp)
        return self._note("gauge", metric, value, tags, sample_rate)

    def _timeless(self, metric: str, timestamp: Any) -> None:
        if timestamp:
            refuse("timestamp", f"{shown(metric)}: found a timestamp, wanted none; it is counted now")

    def histogram(self, metric: str, value: float, tags: _Tags = None,
                  sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Records a value."""
        return self._note("histogram", metric, value, tags, sample_rate)

    def distribution(self, metric: str, value: float, tags: _Tags = None,
                     sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Records a value for percentiles over all hosts."""
        return self._note("distribution", metric, value, tags, sample_rate)

    def timing(self, metric: str, value: float, tags: _Tags = None,
               sample_rate: float | None = None, cardinality: str | None = None) -> bool:
        """Records a duration, in the caller's unit; usually milliseconds."""
        return self._note("timing", metric, value, tags, sample_rate)

    def set(self, metric: str, value: Any, tags: _Tags = None, sample_rate: float | None = None,
            cardinality: str | None = None) -> bool:
        """Records a member of a set."""
        try:
            member = None if value is None else str(value)
        except Exception as error:  # noqa: BLE001  its __str__ may raise anything
            refuse("value", f"set({shown(metric)}): {shown(error, str)}")
            return True
        return self._note("set", metric, member, tags, sample_rate)

    def timed(self, metric: str | None = None, tags: _Tags = None,
              sample_rate: float | None = None, use_ms: bool | None = None) -> _Timed:
        """A context manager and decorator; seconds, or whole milliseconds with use_ms."""
        return _Timed(self, metric, tags, sample_rate, use_ms)

    def distributed(self, metric: str | None = None, tags: _Tags = None,
                    sample_rate: float | None = None, use_ms: bool | None = None) -> _Timed:
        """As `timed`, into a distribution."""
        made = _Timed(self, metric, tags, sample_rate, use_ms)
        made.timing_func = self.distribution
        return made

    def event(self, title: str, message: str, alert_type: str | None = None,
              aggregation_key: str | None = None, source_type_name: str | None = None,
              date_happened: int | None = None, priority: str | None = None, tags: _Tags = None,
              hostname: str | None = None, cardinality: str | None = None) -> None:
        """Sends an event to the server, and records it in the black box."""
        self._event(title, message, alert_type, aggregation_key, source_type_name, date_happened,
                    priority, tags, hostname)

    def _event(self, title: Any, message: Any, alert_type: Any, aggregation_key: Any,
               source_type_name: Any, date_happened: Any, priority: Any, tags: Any,
               hostname: Any) -> bool:
        """Whether the sink took it."""
        try:
            alert = alert_type or "info"
            _native.event("datadog.event", title=str(title), alert=alert)
            return self._marked(_native.statsd_event(
                str(title), str(message), alert=alert, key=aggregation_key, host=hostname,
                source=source_type_name, at_s=int(date_happened) if date_happened else None,
                low=priority == "low", tags=_pairs([*self.constant_tags, *(tags or ())])))
        except Exception as error:  # noqa: BLE001
            refuse("value", f"event({shown(title)}): {shown(error, str)}")
            return False

    def service_check(self, check_name: str, status: int, tags: _Tags = None,
                      timestamp: int | None = None, cardinality: str | None = None,
                      hostname: str | None = None, message: str | None = None) -> None:
        """Sends the outcome of a check (OK, WARNING, CRITICAL, UNKNOWN), and records it in the
        box.
        """
        self._check(check_name, status, tags, timestamp, hostname, message)

    def _check(self, check_name: Any, status: Any, tags: Any, timestamp: Any, hostname: Any,
               message: Any) -> bool:
        """Whether the sink took it."""
        try:
            _native.event("datadog.service_check", check=str(check_name), status=int(status))
            return self._marked(_native.statsd_check(
                str(check_name), int(status), at_s=int(timestamp) if timestamp else None,
                host=hostname, message=message,
                tags=_pairs([*self.constant_tags, *(tags or ())])))
        except Exception as error:  # noqa: BLE001
            refuse("value", f"service_check({shown(check_name)}): {shown(error, str)}")
            return False

    def _marked(self, taken: bool | None) -> bool:
        if not taken:
            why = "no server is named" if taken is None else "the sink did not take it; status() has why"
            refuse("mark", f"event or service check not sent: {why}")
        return bool(taken)

    def flush(self) -> None:
        """Takes a window now, and waits until it is sent: at most two seconds, as
        `dashcam.flush`.
        """
        _native.flush_metrics()

    def wait_for_pending(self, timeout: float | None = None) -> bool:
        """As `flush`; whether all is sent."""
        return bool(_native.flush_metrics())

    def stop(self, timeout: float | None = None) -> None:
        """As `flush`: the recorder continues."""
        _native.flush_metrics()

    def __enter__(self) -> DogStatsd:
        return self

    def __exit__(self, exc_type: Any, value: Any, traceback: Any) -> None:
        return None

    # dashcam has its own: a window every second, a dispatcher, a queue, self-metrics.

    def open_buffer(self, max_buffer_size: int | None = None) -> None:
        """Does nothing: all values are kept until the window."""

    def close_buffer(self) -> None:
        """Does nothing: the window comes within a second."""

    def flush_buffered_metrics(self) -> None:
        """Does nothing."""

    def flush_aggregated_metrics(self) -> None:
        """Does nothing."""

    def enable_aggregation(self, flush_interval: float = 0.3,
                           max_samples_per_context: int = 0) -> None:
        """Does nothing: always on."""

    def disable_aggregation(self) -> None:
        """Does nothing."""

    def enable_background_sender(self, sender_queue_size: int = 0, sender_queue_timeout: float = 0,
                                 sender_queue_expiry_seconds: float | None = 10.0) -> None:
        """Does nothing: always on."""

    def disable_background_sender(self, timeout: float | None = None) -> None:
        """Does nothing."""

    def enable_telemetry(self) -> None:
        """Does nothing: `dashcam.statsd.*`."""

    def disable_telemetry(self) -> None:
        """Does nothing: DASHCAM_STATSD_SELF=off."""

    @staticmethod
    def resolve_host(host: str | None, use_default_route: bool) -> str | None:
        """The host as given; the sink resolves names."""
        return host

    def get_socket(self, telemetry: bool = False) -> None:
        """There is none here."""

    def set_socket_timeout(self, timeout: float | None) -> None:
        """Does nothing."""

    def close_socket(self, quiet: bool = False) -> None:
        """Does nothing."""

    def pre_fork(self) -> None:
        """Does nothing: forks need no call."""

    def post_fork_parent(self) -> None:
        """Does nothing."""

    def post_fork_child(self) -> None:
        """Does nothing."""

    socket = telemetry_socket = None

    @property
    def packets_dropped(self) -> int:
        """Packets that the process's sink lost."""
        return _books("dropped_packets")

    @property
    def bytes_dropped(self) -> int:
        """Their bytes."""
        return _books("dropped_bytes")


def _books(what: str) -> int:
    books = json.loads(_native.status_json()).get("statsd")
    return int(books[what]) if isinstance(books, dict) else 0


statsd = DogStatsd()
