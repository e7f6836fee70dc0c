"""Which hosts are compared with which, and in which hours.

How it works: a comparison is a list of units (a host on one side) with a span each. Both sides of a
comparison are observed for the same time, since a rate from a short time varies more:

    own control   hosts that are on both sides: as long before they changed as after it
    same hours    hosts of one side against hosts of the other, while both sides ran
    other hours   neither is possible: equal times, the last of one side and the first of the other

What it promises: a host is in one comparison at most once on each side. Where two spans of time are
compared, every host that was seen is its own control.

What is missing on purpose: the same hours of the week before. It needs weeks of captures.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dashcam._fleet.ask import questions, statistics

# A comparison with fewer hosts on a side says nothing.
HOSTS_MIN = 3
# Sides ran at the same time if this part of the shorter one is common to both.
COMMON_MIN = 0.25
INCIDENT = datetime.timedelta(seconds=questions.INCIDENT_SECONDS)
Row = dict[str, Any]
Floats = npt.NDArray[np.float64]


class Span(NamedTuple):
    """From an instant to another one."""

    begin: datetime.datetime
    end: datetime.datetime

    @property
    def length(self) -> datetime.timedelta:
        """How long it is; not less than an incident."""
        return max(self.end - self.begin, INCIDENT)


class Comparison(NamedTuple):
    """Units, and the span in which each was observed."""

    how: str
    units: list[statistics.Unit]
    spans: list[Span]

    def described(self) -> Row:
        """What is compared, as data."""
        sides = {name: [span for unit, span in zip(self.units, self.spans) if unit.is_after == (name == "after")] for name in ("before", "after")}
        return {"how": self.how} | {
            name: {"hosts": len(spans), "from_utc": min(s.begin for s in spans), "to_utc": max(s.end for s in spans),
                   "host_days": sum(s.length.total_seconds() for s in spans) / 86_400}
            for name, spans in sides.items()}

    def counted(self, causes: list[str], sides: list[pa.Table | None]) -> tuple[Floats, Floats]:
        """Incidents of each unit and cause, and their excess: units x causes."""
        counts, excess_ns = np.zeros((len(self.units), len(causes))), np.zeros((len(self.units), len(causes)))
        column = {cause: i for i, cause in enumerate(causes)}
        for is_after, table in zip((False, True), sides):
            own = {unit.host: i for i, unit in enumerate(self.units) if unit.is_after == is_after}
            if table is None or not own:
                continue
            lines = np.array([own.get(host, -1) for host in table["host"].to_pylist()], dtype=np.intp)
            columns = np.array([column[cause] for cause in table["fingerprint"].to_pylist()], dtype=np.intp)
            times = table["interval"].to_numpy().astype(np.float64)
            begins, ends = (np.array([_intervals(span[edge]) for span in self.spans]) for edge in (0, 1))
            inside = (lines >= 0) & (times + 1 > begins[lines]) & (times < ends[lines])
            np.add.at(counts, (lines[inside], columns[inside]), 1.0)
            np.add.at(excess_ns, (lines[inside], columns[inside]), table["excess_ns"].to_numpy()[inside])
        return counts, excess_ns


def chosen(before: dict[str, Row], after: dict[str, Row], span_before: Span | None, span_after: Span | None) -> list[Comparison]:
    """The comparisons that are possible between the hosts of both sides, with their captures' times."""
    if span_before and span_after:
        hosts = sorted({*before, *after})
        return [_paired("own control", hosts, [span_before] * len(hosts), [span_after] * len(hosts))]
    whole_before, whole_after = _span(before.values()), _span(after.values())
    found = []
    changed = [host for host in sorted(set(before) & set(after)) if _changed(before[host], after[host])]
    if len(changed) >= HOSTS_MIN:
        spans = [_around(_changed(before[host], after[host]), whole_before, whole_after) for host in changed]
        found.append(_paired("own control", changed, [pair[0] for pair in spans], [pair[1] for pair in spans]))
    common = Span(max(whole_before.begin, whole_after.begin), min(whole_before.end, whole_after.end))
    least = COMMON_MIN * min(whole_before.length, whole_after.length)
    if common.end - common.begin >= least:
        sides = [sorted(host for host, row in side.items() if row["first_utc"] < common.end and row["last_utc"] >= common.begin)
                 for side in (before, after)]
        # A host that was on both sides in these hours is on that of its last capture.
        sides[0] = [host for host in sides[0] if host not in sides[1] or before[host]["last_utc"] > after[host]["last_utc"]]
        sides[1] = [host for host in sides[1] if host not in sides[0]]
        if min(map(len, sides)) >= HOSTS_MIN:
            found.append(_apart("same hours", sides, common, common))
    if not found:
        length = min(whole_before.length, whole_after.length)
        sides = [sorted(before), sorted(after)]
        found.append(_apart("other hours", sides, Span(whole_before.end - length, whole_before.end), Span(whole_after.begin, whole_after.begin + length)))
    return found


def _paired(how: str, hosts: list[str], before: list[Span], after: list[Span]) -> Comparison:
    units = [statistics.Unit(host, is_after) for is_after in (False, True) for host in hosts]
    return Comparison(how, units, before + after)


def _apart(how: str, sides: list[list[str]], before: Span, after: Span) -> Comparison:
    units = [statistics.Unit(host, is_after) for is_after, hosts in zip((False, True), sides) for host in hosts]
    return Comparison(how, units, [before] * len(sides[0]) + [after] * len(sides[1]))


def _span(hosts: Iterable[Row]) -> Span:
    """When a side ran. Captures, at random times, leave a part of that uncovered at both ends; counts
    of requests leave none."""
    rows = list(hosts)
    begin, end = min(row["first_utc"] for row in rows), max(row["last_utc"] for row in rows)
    if any("requests" in row for row in rows):
        return Span(begin, max(end, begin + INCIDENT))
    margin = max((end - begin) / max(1, sum(row["captures"] for row in rows) - 1), INCIDENT)
    return Span(begin - margin, end + margin)


def _changed(before: Row, after: Row) -> datetime.datetime | None:
    """When a host changed from one side to the other, between its captures or counts; None: it ran
    both. A process that ends its last requests beside the new one is no second side."""
    for first, second in ((before, after), (after, before)):
        if first["first_utc"] < second["first_utc"] and first["last_utc"] < second["first_utc"] + INCIDENT:
            middle: datetime.datetime = first["last_utc"] + (second["first_utc"] - first["last_utc"]) / 2
            return middle
    return None


def _around(at: datetime.datetime | None, before: Span, after: Span) -> tuple[Span, Span]:
    """Equal times on both sides of a change, as long as both sides ran."""
    assert at is not None
    if before.begin <= after.begin:
        length = max(min(at - before.begin, after.end - at), INCIDENT)
        return Span(at - length, at), Span(at, at + length)
    length = max(min(before.end - at, at - after.begin), INCIDENT)
    return Span(at, at + length), Span(at - length, at)


def _intervals(when: datetime.datetime) -> float:
    """A time in intervals of an incident's length since 1970."""
    return (when - datetime.datetime(1970, 1, 1)).total_seconds() / questions.INCIDENT_SECONDS
