"""dashcam: the always-on black box of a running service.

    import dashcam
    dashcam.start(service="billy", slow="500ms")
    with dashcam.request("GET /checkout", user=42):
        with dashcam.span("db.query", rows=3):
            ...

How it works: the recorder is native (`dashcam._native`); this package adds the hooks for gc, fork
and exit, and the integrations that turn web requests into `request`s. Without the native module (an
interpreter it was not built for) everything here remains callable and does nothing; `status()`
gives the reason.

What it promises: after `start` returned, nothing here raises because of the recorder. A wrong
setting given in code raises ValueError at `start`; a wrong environment variable is reported on
stderr and ignored.
"""

from __future__ import annotations

from dashcam import _notices, _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path
    from typing import Any, Callable, Literal, MutableMapping

try:
    from dashcam import _native
except ImportError as error:  # another interpreter, or not built
    from dashcam import _absent as _native  # type: ignore[no-redef]

    _native.why = _native.explain(error)  # type: ignore[attr-defined]

from dashcam import metric, reading  # noqa: E402

# No module `__getattr__` to import some of it on demand: with it, CPython looks `dashcam.span` up
# the slow way each time, 20 ns.
from dashcam._version import __version__  # noqa: E402
from dashcam.log import LogFilter, LogHandler  # noqa: E402
from dashcam.reading import Capture, CaptureError, Diagnosis  # noqa: E402

# Without `set` and `open`: a program that imports all names keeps Python's own.
__all__ = [
    "Capture", "CaptureError", "Diagnosis", "LogFilter", "LogHandler", "count", "counter", "distribution", "event", "fleet", "flush", "gauge", "gauge_add", "histogram",
    "inject", "metric", "request", "snap", "span", "start", "status", "stop", "stream", "timing", "trace",
    "trace_id", "traceparent",
    "__version__",
]

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Unpack

    from dashcam._absent import event, request, span
    from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

    from dashcam._fleet.fleet import Fleet
    from dashcam.shapes import Status, StreamSettings
else:
    # The native functions themselves: a wrapper would cost more than they do.
    event, request, span = _native.event, _native.request, _native.span

trace = span


def traceparent() -> str | None:
    """The header `traceparent` (W3C Trace Context) for calls made now: the current request's trace,
    and the innermost span open on this thread. None outside of requests and spans."""
    parent: str | None = _native.traceparent()
    return parent


def trace_id() -> str | None:
    """The current request's trace id, 32 hex digits, as in tracing tools and captures. None outside
    of requests and spans."""
    found: str | None = _native.trace_id()
    return found


def inject(headers: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """Adds `traceparent`, and `tracestate` if the caller sent one, to the headers of a call that is
    about to be made; returns `headers`. Headers that have a `traceparent` remain unchanged. With
    the setting `propagate` the usual clients need no such call."""
    from dashcam._integrations import outgoing

    return outgoing.inject(_native, headers)


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
    """Takes a window of metrics now and waits until the sinks have it, and until everything for a
    collector by OTLP is sent, at most two seconds. False: it took longer, or nothing is being
    recorded."""
    return bool(_native.flush_metrics())


@_process.starts
def start(
    *,
    # Generated: crates/settings.
    enabled: bool | Literal["on", "off"] = True,
    service: str | None = None,
    labels: str | None = None,
    out: str | PathLike[str] = "captures",
    slow: str = "500ms",
    memory: str | int = "64MiB",
    window: str = "60s",
    post: str = "1s",
    cooldown: str = "10s",
    keep: int = 50,
    keep_bytes: str | int = "1GiB",
    rate_hz: float = 100,
    budget_percent: float = 1,
    switches: bool | Literal["on", "off"] = True,
    stacks: bool | Literal["on", "off"] = True,
    metrics_series: int = 2000,
    threads: int = 16,
    on_error: str | None = None,
    on_metric: str | None = None,
    openmetrics: str | None = None,
    signal: Literal["USR2"] | None = None,
    per_day: int = 100,
    repeat_after: str = "0s",
    decay: str = "0s",
    at_exit: Literal["slow", "crash", "always", "never"] = "slow",
    hook: str | None = None,
    explain: bool | Literal["on", "off"] = True,
    source_lines: bool | Literal["on", "off"] = True,
    rollups: bool | Literal["on", "off"] = True,
    control: bool | Literal["on", "off"] = True,
    otlp: str | None = None,
    otlp_share: float = 1,
    calls: bool | Literal["on", "off"] = True,
    propagate: bool | Literal["on", "off"] = False,
    otel: bool | Literal["on", "off"] = False,
    when: Callable[[str, float, bool], object] | None = None,
) -> bool:
    """Starts recording; idempotent. Returns whether recording was started by this call.

    Each setting has an environment variable DASHCAM_<NAME>, which takes precedence. None means: not
    given. Times have a unit ("500ms", "1.5s", "2m"), and so do sizes ("64MiB"). docs/settings.md
    has more. Raises ValueError for a wrong value or an unknown setting; while recording is on
    already, settings that differ from the first ones are ignored, and one line on stderr reports
    it.

    Settings:
    enabled: Turns everything on or off. Accepts on, off.
    service: Name of the service; the program's name when empty. Accepts text.
    labels: Labels of the process, in each capture; with those of OTEL_RESOURCE_ATTRIBUTES. Accepts
        version=4.2,environment=prod.
    out: Where captures are written. Accepts folder.
    slow: What is slow: a limit for any request, or by name. Accepts 500ms; checkout>250ms;
        p99(checkout)>50ms/30s; several with commas.
    memory: Size of the black box. Accepts 1MiB to 4GiB.
    window: How far back a capture reaches. Accepts 1s to 24h.
    post: How long to go on recording after the trigger before saving. Accepts 1ms to 10m.
    cooldown: Quiet time after a capture; doubles while slow requests go on. Accepts 100ms to 24h.
    keep: Most captures kept; the oldest are removed first. Accepts 1 to 100000.
    keep_bytes: Most bytes of captures kept. Accepts 1MiB to 1TiB.
    rate_hz: Passes of the sampler a second. Accepts 1 to 1000.
    budget_percent: CPU time the sampler may use, percent of one core. Accepts 0.01 to 100.
    switches: Exact context switches from the kernel (off: estimates from /proc). Accepts on, off.
    stacks: Python stacks. Accepts on, off.
    metrics_series: Most series of metrics (name, kind, tags); calls beyond are refused and counted.
        Accepts 1 to 8192.
    threads: Most threads sampled in one pass. Accepts 1 to 1024.
    on_error: Which failed requests make a capture. Accepts error; TimeoutError;
        *Timeout*(checkout); errors(checkout)>5%/30s; several with commas.
    on_metric: Which numbers of metrics make a capture. Accepts queue.depth>100;
        errors{route=*}>5/s/10s; p99(db.query)>50ms/30s; several with commas.
    openmetrics: Where a Prometheus or OpenMetrics scraper finds the metrics; none when empty.
        Accepts 127.0.0.1:9464; 127.0.0.1:9464-9479; unix:/run/billy-{pid}.sock.
    signal: The signal that makes a capture, if the program has no handler of its own for it.
        Accepts USR2.
    per_day: Most captures that rules make in a day; the others are counted. Accepts 1 to 100000.
    repeat_after: A cause (request name and rule) captured less than this long ago is counted, not
        captured again. Accepts 0s to 168h.
    decay: After this long without a capture limits begin to fall, by half in each further such
        time; 0s: never. Accepts 0s to 168h.
    at_exit: A capture at the end: of slow requests that are in none yet, of an uncaught exception
        too, always, never. Accepts slow, crash, always, never.
    hook: Run for each capture, with its path as the last argument. Accepts a command.
    explain: The verdict on each capture, by the command dashcam in a process of its own. Accepts
        on, off.
    source_lines: Keeps the lines of source around the places that the verdict names, in the
        capture. Accepts on, off.
    rollups: Counts all requests by name and hour, in a file beside the captures, for dashcam fleet.
        Accepts on, off.
    control: The control socket: dashcam ps, status, snap and set. Accepts on, off.
    otlp: Where slow and failed requests, a share of the others, and metrics are sent by OTLP; env:
        where OTEL_EXPORTER_OTLP_ENDPOINT says. Accepts http://HOST:4318, env, off.
    otlp_share: Share of the other requests that is sent, percent. Accepts 0 to 100.
    calls: Records statements, commands and requests to other services as spans
        (docs/integrations.md). Accepts on, off.
    propagate: Sends traceparent along with HTTP requests and Celery tasks that the program sends
        (Python). Accepts on, off.
    otel: Records the spans of OpenTelemetry instrumentations (Python, with opentelemetry-sdk).
        Accepts on, off.
    when: A callable (name, seconds, error) -> bool, called at the end of each request on its own
        thread; True makes a capture. It should cost microseconds; after ten exceptions it is called
        no more.
    """
    raise NotImplementedError  # `_process.starts` gets what is given


def stop() -> None:
    """Stops recording. The recording remains for a later `start` in the same process."""
    _native.stop()


def snap(reason: str = "snap") -> Path:
    """Saves a capture now and returns its path. Raises OSError if that is not possible."""
    from pathlib import Path

    return Path(_native.snap(reason))


class Stream:
    """A live stream of records, beside the black box. Ends with `close`, a `with` block, or
    `stop`.
    """

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def counts(self) -> dict[str, int]:
        """The counts of the stream's records: `filtered` were not requested; of the `offered` ones
        some are `read`, `overwritten`, `dropped` or `torn`, the rest is still in the queue."""
        counts: dict[str, int] = self._native.counts()
        return counts

    def error(self) -> str | None:
        """Why it ended by itself (its sink broke); None while it runs."""
        error: str | None = self._native.error()
        return error

    def close(self) -> None:
        """Writes the queued records and ends the stream; waits for a slow sink at most three
        seconds. Raises OSError if the sink had broken or refuses the data."""
        self._native.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def stream(sink: str | Path, **settings: Unpack[StreamSettings]) -> Stream:
    """Streams records to a new file, or to a listening unix socket ("unix:/run/x.sock"), in the
    format of captures: `dashcam show` and `dashcam why` read it, also while it grows.

    kinds ("request,span,event,gc,sample,off_cpu,vital,metric,trace"; default all), names (words or
    globs with commas), min_duration ("5ms"), on_full ("drop-newest", "overwrite-oldest",
    "block:5ms"), memory of its queue ("4MiB"). A slow or dead reader costs this stream its records
    and affects nothing else, unless it is set to block. Up to 63 at once. Raises ValueError for a
    wrong setting, OSError when the sink cannot be opened or nothing is being recorded.
    """
    return Stream(_native.Stream(str(sink), settings))


def open(path: str | Path, *, native_names: bool = True) -> Capture:
    """Reads a capture, or the newest (`*.dashcam`) in a folder: `.tables` (Arrow), `.why()`,
    `.summary()`. Costs up to seven times the file's size in memory. Raises CaptureError, an
    OSError, for a file that is no capture or cannot be read; for a cut or damaged capture `.damage`
    lists the losses.

    native_names: names native code from the binaries of this machine. False: reads the capture
    alone, which is quicker, and the same on every machine.
    """
    return reading.open(path, native_names=native_names)


def fleet(
    uri: str | Path, *, since: str | datetime | None = None, until: str | datetime | None = None, service: str | None = None,
    where: str | None = None, engine: str | SparkSession = "duckdb",
) -> Fleet:
    """Questions over the captures of many hosts: `.why()`, `.diff()`, `.trend()`, `.show()`,
    `.tables` (Ibis), `.sql()`, `.open()`. Needs `pip install 'dashcam[fleet]'` (ImportError).

    uri: a folder of captures, which are judged now and remembered; or the tables that `dashcam
    fleet index` or `dashcam ship` wrote, also in an object store ("s3://bucket/fleet"). since,
    until: "7d" (before now), or a time in UTC. service: only this one. where: a condition in SQL
    over the captures, like "version = '4.2'". engine: "duckdb"; or Spark, which needs `pip install
    'dashcam[spark]'`: "local-spark", "spark://HOST:PORT", "sc://HOST:PORT", "spark" (what
    spark-defaults.conf says), or a SparkSession. Raises CaptureError, an OSError, for a source that
    cannot be read, OSError for an engine that fails, ValueError for a wrong argument.
    """
    from dashcam._fleet.fleet import Fleet

    return Fleet(uri, since=since, until=until, service=service, where=where, engine=engine)


def status() -> Status:
    """Settings, sources, losses, the sampler's own cost, captures written so far. Before `start`
    only `on` and `integrations`: `status().get("sources")`."""
    import json

    state: Status = json.loads(_native.status_json())
    state["integrations"] = _notices.notices()
    return state


