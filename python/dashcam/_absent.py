"""Stands in where the native module cannot be loaded: everything is callable, nothing is recorded.

`why` says what was wrong; `status()` and the first `start` tell it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

why = "the native module is not there"


def explain(error: ImportError) -> str:
    """What is wrong: a module for another interpreter, or none."""
    folder = os.path.dirname(os.path.abspath(__file__))
    others = sorted(n for n in os.listdir(folder) if n.startswith("_native.") and n.endswith(".so"))
    if others:
        return "found only " + ", ".join(others)
    return str(error) if "circular" not in str(error) else "it was not built"


class Span:
    """Does nothing."""

    def __init__(self, name: str, **attributes: Any) -> None:
        self.name, self.attributes = name, attributes

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *exc: object) -> bool:
        return False


class Request(Span):
    """Does nothing."""

    id = 0


def start(config: dict[str, str]) -> bool:
    """Says once that nothing is recorded."""
    found = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    print(
        f"dashcam: not recording: no native module for {found}: {why}; wanted CPython 3.9 to 3.13 "
        "with dashcam installed in its own environment; the program runs on",
        file=sys.stderr,
    )
    return False


def snap(reason: str) -> str:
    """There is nothing to save."""
    raise OSError(f"dashcam is not recording: {why}")


class Stream:
    """There is nothing to stream."""

    def __init__(self, sink: str, settings: dict[str, str]) -> None:
        raise OSError(f"dashcam is not recording: {why}")


def status_json() -> str:
    """Off, and why."""
    return json.dumps({"on": False, "why": why})


def request_begin(name: str, on_loop: bool = False, fd: int = -1, enter: bool = True) -> int:
    """No request."""
    return 0


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


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


event = request_enter = request_end = request_failed = request_rename = task_end = gc_callback = _nothing
set_runtime = stop = before_exit = when = name_thread = name_tid = _nothing
statsd_event = statsd_check = _nothing
count = gauge = gauge_add = timing = histogram = distribution = set = _nothing


def current_request() -> int:
    """None."""
    return 0


def is_on() -> bool:
    """Never."""
    return False


is_started = is_on
