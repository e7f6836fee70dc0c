"""Replaces the native module where it cannot be loaded: everything is callable, nothing is
recorded.

`why` is the reason; `status()` and the first `start` report it. Type checkers read the signatures
of `span`, `request` and `event` here.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, Callable, Mapping, TypeVar, overload

why = "the native module is not there"
elsewhere = False
"""Whether another interpreter of this process holds the recorder."""


def explain(error: ImportError) -> str:
    """The reason: held by another interpreter of this process, a module for another Python, or
    none."""
    global elsewhere
    elsewhere = "interpreter" in str(error)
    if elsewhere:
        return "another interpreter of this process holds the recorder, and records its threads"
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name} on {sys.platform}"
    if "t" in getattr(sys, "abiflags", "") and sys.version_info < (3, 14):
        return "this is a free-threaded build, which CPython supports from 3.14 on: use one, or a build with the GIL"
    folder = os.path.dirname(os.path.abspath(__file__))
    others = sorted(n for n in os.listdir(folder) if n.startswith("_native.") and n.endswith(".so"))
    if others and not any(n.endswith(s) for n in others for s in EXTENSION_SUFFIXES):
        return "found only " + ", ".join(others)
    return str(error) if "circular" not in str(error) else "it was not built"


F = TypeVar("F", bound=Callable[..., Any])


class Span:
    """Nested work, in a `with`, or as a decorator of a plain or async function."""

    name: str
    """Its name."""
    attributes: dict[str, Any]
    """Its attributes, as given and set so far."""

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name, self.attributes = name, attributes

    def set(self, **attributes: Any) -> None:
        """Adds attributes, or replaces existing ones, until its end."""
        self.attributes.update(attributes)

    def __call__(self, function: F) -> F:
        return function

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


S = TypeVar("S", bound=Span)


class Request(Span):
    """Judged work, in a `with`, or as a decorator of a plain or async function."""

    id = 0
    """Its id; 0 while it is not open."""


def _made(kind: type[Span], given: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    if len(given) == 1 and callable(given[0]):
        return given[0]
    (name,) = given or (attributes.pop("name"),)
    return kind(name, attributes)


@overload
def span(name: F, /) -> F: ...
@overload
def span(name: str, **attributes: Any) -> Span: ...
def span(*name: Any, **attributes: Any) -> Any:
    """Nested work: `with span("db.query", rows=3): ...`; `@span` and `@span("name")` too."""
    return _made(Span, name, attributes)


@overload
def request(name: F, /) -> F: ...
@overload
def request(name: str, **attributes: Any) -> Request: ...
def request(*name: Any, **attributes: Any) -> Any:
    """A unit of work whose latency is judged: `with request("GET /x"): ...`, or a decorator."""
    return _made(Request, name, attributes)


def event(name: str, **attributes: Any) -> None:
    """Something that happened now, in the current request if there is one."""


def start(config: dict[str, str]) -> bool:
    """Reports once that nothing is recorded."""
    if elsewhere:
        print(
            f"dashcam: calls of this interpreter are not recorded: {why}; wanted one interpreter "
            "(mod_wsgi: WSGIApplicationGroup %{GLOBAL}); the program runs on",
            file=sys.stderr,
        )
        return False
    found = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    print(
        f"dashcam: not recording: no native module for {found}: {why}; wanted CPython 3.9 to 3.15 on "
        "Linux with dashcam installed in its own environment; the program runs on",
        file=sys.stderr,
    )
    return False


def before_exec(prepare: Any) -> None:
    """No program that this one becomes is followed."""


def command() -> int:
    """`dashcam` of the wheel without native modules: says where there is one."""
    print(
        f"dashcam: no command for {sys.implementation.name} on {sys.platform}; wanted CPython on Linux, "
        "which records, and judges captures of other machines, too",
        file=sys.stderr,
    )
    return 2


def snap(reason: str) -> str:
    """There is nothing to save."""
    raise OSError(f"dashcam is not recording: {why}")


class Stream:
    """There is nothing to stream."""

    def __init__(self, sink: str, settings: Mapping[str, object]) -> None:
        raise OSError(f"dashcam is not recording: {why}")


def status_json() -> str:
    """Off, and the reason."""
    return json.dumps({"on": False, "why": why})


def request_begin(name: str, on_loop: bool = False, fd: int = -1, enter: bool = True) -> int:
    """No request."""
    return 0


def request_arrives(
    method: str, path: str, on_loop: bool = False, connection: Any = None, enter: bool = True
) -> int:
    """No request."""
    return 0


def asgi_arrives(method: str, path: str, transport: Any = None) -> int:
    """No request."""
    return 0


def wsgi_call(application: Any, environ: Any, start_response: Any) -> Any:
    """Calls the application."""
    return application(environ, start_response)


def task_begin(request: int, queued_ns: int) -> None:
    """No task."""


class _Metric:
    """Counts nothing."""

    def __init__(self, name: str, *, tags: dict[str, Any] | None = None, rate: float = 1) -> None:
        pass

    def inc(self, n: float = 1) -> None:
        """Nothing."""

    def set(self, value: float) -> None:
        """Nothing."""

    def add(self, what: Any) -> None:
        """Nothing."""

    def record(self, value: float) -> None:
        """Nothing."""


counter = gauge_handle = timing_handle = histogram_handle = _Metric
distribution_handle = set_handle = _Metric


def flush_metrics() -> bool:
    """There is nothing to flush."""
    return False


def leave() -> bool:
    return True


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


request_enter = request_end = request_failed = request_rename = request_route = _nothing
task_end = gc_callback = watch_collections = known_integrations = integration_in_place = _nothing
set_runtime = stop = before_exit = remove_hooks = release_cursors = when = thread_begins = threads_were_there = name_thread = name_tid = _nothing
statsd_event = statsd_check = _nothing
count = gauge = gauge_add = timing = histogram = distribution = set = _nothing


traceparent = tracestate = trace_id = span_open = span_close = lost_span = exception = _nothing
request_identify = request_ends_as = _nothing


def current_request() -> int:
    """None."""
    return 0


def is_on() -> bool:
    """Never."""
    return False


is_started = is_on


def request_continue(request: int, traceparent: str, tracestate: str = "") -> bool:
    """Never."""
    return False


def setting_is_on(name: str) -> bool:
    """Never."""
    return False
