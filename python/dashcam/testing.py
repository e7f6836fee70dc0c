"""For tests: the metrics that some code counted.

    from dashcam import testing

    def test_checkout_counts_the_order():
        with testing.metrics() as counted:
            checkout()
        assert counted.total("orders", tags={"shop": "a"}) == 1
        assert counted.names() == {"orders", "db.query"}

How it works: a window of metrics is taken at the begin and at the end, and the windows between are
read from a capture, which is removed again. So the whole path is under test, with names and tags as
sinks get them. What it promises: exact counts of the whole process, threads included. Cost: some 50
ms, more for a large box: in tests give `dashcam.start(memory="1MiB")`. Metrics of dashcam itself
(`dashcam.*`) are left out. Missing on purpose: requests, spans and events
(`dashcam.open(dashcam.snap())` has them).
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Iterator, Mapping

import dashcam

__all__ = ["Counted", "metrics"]


class Counted:
    """The values of each series while the block ran; empty until its end."""

    def __init__(self) -> None:
        self.series: list[dict[str, Any]] = []
        """name, kind, tags, and `windows` as `Capture.summary()` has them."""

    def names(self) -> set[str]:
        """Names of series with a value."""
        return {one["name"] for one in self.series}

    def _windows(self, name: str, tags: Mapping[str, str] | None) -> list[dict[str, Any]]:
        """All series of a name; with `tags`, the series that has exactly these."""
        fits = [one for one in self.series if one["name"] == name and (tags is None or one["tags"] == dict(tags))]
        return [window for one in fits for window in one["windows"]]

    def total(self, name: str, *, tags: Mapping[str, str] | None = None) -> float:
        """The count; for timings, histograms and distributions the number of values; for sets the
        number of distinct members, at most. 0: no value. Without `tags` over all series."""
        windows = self._windows(name, tags)
        return sum(float(window.get("count", window.get("members", 0))) for window in windows)

    def sum(self, name: str, *, tags: Mapping[str, str] | None = None) -> float:
        """The sum of the values of a timing (ms), histogram or distribution."""
        return sum(float(window.get("sum", 0)) for window in self._windows(name, tags))

    def last(self, name: str, *, tags: Mapping[str, str] | None = None) -> float | None:
        """The last value of a gauge, with later changes by `gauge_add`; None: no value."""
        value: float | None = None
        for window in sorted(self._windows(name, tags), key=lambda w: int(w["to_ns"])):
            if "value" in window:
                base = value or 0.0 if window["delta"] else 0.0
                value = base + float(window["value"])
        return value


@contextlib.contextmanager
def metrics() -> Iterator[Counted]:
    """Records the metrics of the block. Raises RuntimeError where nothing is recorded."""
    if not dashcam.status().get("on"):
        raise RuntimeError('testing.metrics: found recording off, wanted dashcam.start(memory="1MiB") before')
    counted = Counted()
    begin_ns = time.monotonic_ns()
    _flush()
    yield counted
    _flush()
    path = dashcam.snap("testing.metrics")
    if path is None:
        raise RuntimeError(f"testing.metrics: found no capture: {dashcam.status().get('last_error')}")
    try:
        found = dashcam.open(path).summary()["metrics"]
    finally:
        path.unlink()
    for one in found:
        # Windows follow each other: the first that counts begins where the one flushed above ended.
        windows = [window for window in one["windows"] if window["from_ns"] >= begin_ns]
        if windows and not one["name"].startswith("dashcam."):
            counted.series.append({**one, "windows": windows})


def _flush() -> None:
    """Ends a window now."""
    if not dashcam.flush():
        raise RuntimeError("testing.metrics: found no window within two seconds, wanted one; is the machine busy?")
