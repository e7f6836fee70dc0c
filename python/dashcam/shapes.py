"""The types of the dicts that dashcam returns: `status()`, `Capture.summary()`,
`Diagnosis.causes` and `Diagnosis.json()`.

    from dashcam.shapes import Cause

They are what `dashcam status --json`, `show --json` and `why --json` print. Later versions may add
keys. Only programs that name a type import this module: it imports `typing`, which takes longer
than all of dashcam.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = [
    "CaptureHead", "Cause", "Evidence", "Loss", "MetricSeries", "OpenSpan", "Place", "Requests", "RequestsOfName",
    "SettingsInForce", "SlowRequest", "SourceLines", "Status", "StreamState", "Summary", "Suspect", "Thread", "Verdict",
]


class SettingsInForce(TypedDict):
    """The settings that hold, in the units that end their names."""

    # Generated: crates/settings.
    enabled: bool
    """ Turns everything on or off."""
    out: str
    """ Where captures are written."""
    slow: str
    """ What is slow: a limit for any request, or by name."""
    memory_bytes: int
    """ Size of the black box."""
    window_ns: int
    """ How far back a capture reaches."""
    post_ns: int
    """ How long to go on recording after the trigger before saving."""
    cooldown_ns: int
    """ Quiet time after a capture; doubles while slow requests go on."""
    keep: int
    """ Most captures kept; the oldest are removed first."""
    keep_bytes: int
    """ Most bytes of captures kept."""
    period_ns: int
    """ Passes of the sampler a second."""
    budget_percent: float
    """ CPU time the sampler may use, percent of one core."""
    switches: bool
    """ Exact context switches from the kernel (off: estimates from /proc)."""
    stacks: bool
    """ Python stacks."""
    metrics_series: int
    """ Most series of metrics (name, kind, tags); calls beyond are refused and counted."""
    threads: int
    """ Most threads sampled in one pass."""
    on_error: str
    """ Which failed requests make a capture."""
    on_metric: str
    """ Which numbers of metrics make a capture."""
    openmetrics: str
    """ Where a Prometheus or OpenMetrics scraper finds the metrics; none when empty."""
    signal: bool
    """ The signal that makes a capture, if the program has no handler of its own for it."""
    per_day: int
    """ Most captures that rules make in a day; the others are counted."""
    repeat_after_ns: int
    """ A cause (request name and rule) captured less than this long ago is counted, not captured
    again."""
    decay_ns: int
    """ After this long without a capture limits begin to fall, by half in each further such time;
    0s: never."""
    at_exit: Literal["slow", "crash", "always", "never"]
    """ A capture at the end: of slow requests that are in none yet, of an uncaught exception too,
    always, never."""
    hook: str
    """ Run for each capture, with its path as the last argument."""
    explain: bool
    """ The verdict on each capture, by the command dashcam in a process of its own."""
    source_lines: bool
    """ Keeps the lines of source around the places that the verdict names, in the capture."""
    rollups: bool
    """ Counts all requests by name and hour, in a file beside the captures, for dashcam fleet."""
    control: bool
    """ The control socket: dashcam ps, status, snap and set."""
    otlp: str
    """ Where slow and failed requests, a share of the others, and metrics are sent by OTLP; env:
    where OTEL_EXPORTER_OTLP_ENDPOINT says."""
    otlp_share: float
    """ Share of the other requests that is sent, percent."""
    calls: bool
    """ Records statements, commands and requests to other services as spans
    (docs/integrations.md)."""
    propagate: bool
    """ Sends traceparent along with HTTP requests and Celery tasks that the program sends
    (Python)."""
    otel: bool
    """ Records the spans of OpenTelemetry instrumentations (Python, with opentelemetry-sdk)."""
    # End.


class StreamSettings(TypedDict, total=False):
    """The settings of `dashcam.stream`."""

    kinds: str
    names: str
    min_duration: str
    on_full: str
    memory: str


class StreamState(TypedDict):
    """A live stream, with the counts of its records."""

    session: int
    """Its number."""
    sink: str
    """The file or socket."""
    filtered: int
    """Not requested."""
    offered: int
    """Put into its queue."""
    read: int
    overwritten: int
    dropped: int
    torn: int
    error: str
    """Why it ended by itself; empty while it runs."""


class SamplerState(TypedDict):
    """What the sampler did, and its cost."""

    passes: int
    samples: int
    cpu_ns: int
    cpu_percent: float
    """Percent of one core, since recording began."""
    budget_used: float
    """Share of `budget_percent`; more than 1 in the first seconds, while the initial budget lasts."""
    longest_pass_ns: int
    last_capture_ns: int
    """What writing the last capture took."""


class MetricsState(TypedDict):
    """Metrics of the process."""

    series: int
    windows: int
    last_readings: int


class DescriptorsState(TypedDict):
    """File descriptors of dashcam."""

    in_the_programs_table: int
    of_at_most: int
    in_our_own_table: int
    limit: int


class _On(TypedDict):
    on: bool
    """Whether records are taken."""
    integrations: list[str]
    """What integrations found in another form than expected."""


class JudgedCapture(TypedDict):
    """The verdict on a capture in one line, made when it was saved (setting `explain`)."""

    file: str
    reason: str
    """What made the capture."""
    cause: str
    place: str
    holder: str
    share: str
    """Percent of the excess that the cause explains."""
    confidence: str
    fingerprint: str
    seen: str
    """`new`, or `before`: a capture of this service had the same cause."""
    line: str


class VerdictsState(TypedDict):
    """The newest verdicts on captures of this process."""

    on: bool
    refused: str
    """Why captures are not judged; empty: they are, or there is none yet."""
    missing: int
    """Captures that were to be judged and were not."""
    last: list[JudgedCapture]


class Status(_On, total=False):
    """`dashcam.status()`. Before `start`, and where nothing can be recorded, only `on`,
    `integrations` and perhaps `why` or `last_error` are there."""

    why: str
    """Why nothing can be recorded in this interpreter."""
    service: str
    pid: int
    box: str
    """The file of the black box, or `process memory`."""
    box_not_in_a_file_because: str
    box_bytes: int
    """Its size when all of it is used."""
    box_present_bytes: int
    """Its bytes that are in memory."""
    box_does_not_grow_because: str
    settings: SettingsInForce
    sources: dict[str, str]
    """Name of a source -> `on`, or `off: ` and the reason."""
    losses: dict[str, int]
    """Each counter of docs/losses.md."""
    descriptors: DescriptorsState
    repeated: dict[str, int]
    """Cause -> how often it came again without a capture (`repeat_after`)."""
    sampler: SamplerState
    open_requests: int
    metrics: MetricsState
    statsd: str | dict[str, Any]
    """`off`, or the counters of docs/statsd.md."""
    openmetrics: str | dict[str, Any]
    """`off`, or the counters of docs/openmetrics.md."""
    otlp: str | dict[str, Any]
    """`off`, or the counters of docs/otlp.md."""
    variables_passed_over: list[str]
    """Variables of other agents that would name a receiver, and are not used."""
    requests: int
    no_requests_because: str
    """Why no request has begun although the process works; empty: one has, or it is not known."""
    integrations_in_place: list[str]
    """The integrations that begin requests and whose modules are imported."""
    slow_requests: int
    streams: list[StreamState]
    captures: list[str]
    """Paths of the captures that this process wrote."""
    verdicts: VerdictsState
    last_error: str
    """The last failure of ours; empty without any."""


class RequestsOfName(TypedDict):
    """The requests of one name."""

    name: str
    count: int
    median_ms: float
    worst_ms: float | None


class SlowRequest(TypedDict):
    """One of the slowest requests."""

    name: str
    id: int
    ms: float
    """Of an open one: so far."""
    error: bool
    trace_id: str
    """32 hex digits; all 0 outside of a trace."""
    span_id: str
    parent_id: str
    status: str


class OpenSpan(TypedDict):
    """A span that had not ended when the capture was made."""

    name: str
    tid: int
    request: int
    age_ms: float


class Thread(TypedDict):
    """A thread, and the time that the capture covers of it."""

    tid: int
    name: str
    from_ns: int
    read: int
    """Records."""
    missing_before: int
    missing_between: int
    missing_after: int
    dropped: int
    samples: int


class MetricSeries(TypedDict):
    """A metric with one set of tags."""

    name: str
    kind: str
    tags: dict[str, str]
    windows: list[dict[str, Any]]
    """`from_ns`, `to_ns` and the numbers of the kind (docs/metrics.md)."""


class Summary(TypedDict):
    """`Capture.summary()`."""

    schema: int
    """1."""
    file: str
    common_horizon_ns: int
    """From here on all threads are complete; nanoseconds of CLOCK_MONOTONIC."""
    meta: dict[str, Any]
    """What the recorder wrote about itself: service, host, settings, sources, losses."""
    requests: list[RequestsOfName]
    open_requests: int
    open_spans: list[OpenSpan]
    """At most 20."""
    slowest: list[SlowRequest]
    """At most 20."""
    threads: list[Thread]
    counts: dict[str, int]
    """Records by kind."""
    metrics: list[MetricSeries]
    torn_blocks: int
    switches_mended: int
    damage: list[str]
    """What is wrong with the file; empty for a whole one."""


class SourceLines(TypedDict):
    """Lines of source around a place, as they were on the host."""

    first: int
    """The number of the first of them."""
    lines: list[str]
    changed: bool
    """The file was written since the process began: these need not be the lines that ran."""


class _Source(TypedDict, total=False):
    source: SourceLines | None
    """Of a cause's `where` and `culprit` only; None: the capture has none."""


class Place(_Source):
    """A place in the code."""

    function: str
    qualified: str
    """With its class."""
    file: str
    line: int
    module: str


class Evidence(TypedDict):
    """A number that supports a cause."""

    what: str
    value: float
    unit: str


_Cause = Literal[
    "sleep", "lock-wait", "gil-wait", "gc-pause", "cpu", "cpu-starved", "cpu-throttled", "event-loop-blocked", "pool-wait",
    "downstream-wait", "connect", "dns", "disk-io", "pipe-write", "subprocess-wait", "import", "fork", "page-fault",
    "stopped", "deadlock-timeout", "recorder", "unknown",
]

_Where = TypedDict("_Where", {"where": "Place | None"})


class Cause(_Where):
    """A cause of slow requests."""

    rank: int
    """1 is the largest."""
    cause: _Cause
    share: float
    """Part of the slow requests' excess over typical that it explains, 0 to 1."""
    excess_ns: int
    confidence: Literal["confirmed", "likely", "possible"]
    fingerprint: str
    """The same for the same cause at the same place, in any capture."""
    slow_requests: int
    """Slow requests that it is in."""
    normal_requests: int
    """Requests of the same names that were not slow and have it, too."""
    first_ns: int | None
    last_ns: int | None
    threads: int
    summary: str
    """One sentence."""
    culprit: Place | None
    """Whose doing it is, when that is another thread or caller: a lock's holder, for example."""
    target: str | None
    """What was waited for: address, file, lock, pool."""
    path: list[str]
    """The functions from the request to the place."""
    trace_ids: list[str]
    evidence: list[Evidence]
    missing: list[str]
    """What would make it surer."""
    advice: str


class Loss(TypedDict):
    """What was lost."""

    what: str
    count: int


class CaptureHead(TypedDict):
    """What was judged."""

    file: str
    service: str
    host: str
    pid: int
    reason: str
    from_ns: int
    to_ns: int
    common_horizon_ns: int
    sources: dict[str, str]
    losses: list[Loss]
    observations_read: int | None
    """None: all of them."""
    observations: int | None


class Requests(TypedDict):
    """The requests that were judged."""

    total: int
    slow: int
    threshold_ms: float | None
    """None: no limit."""
    typical_ms: float | None
    failed: int
    end_lost: int
    older: int
    worst_ms: float
    excess_ns: int
    slow_examined: int
    normal_examined: int


class Suspect(TypedDict):
    """What took time in slow requests and is not to blame."""

    what: str
    ms: float


class Verdict(TypedDict):
    """`Diagnosis.json()`."""

    schema: int
    """1."""
    capture: CaptureHead
    requests: Requests
    otherwise: list[Suspect]
    causes: list[Cause]
    """The largest share first."""
    unexplained_share: float
