"""A log of request counts (docs/rollups.md) as rows of `rollups`: one pure function, `rows`.

How it works: each line of the log has what a process counted in an interval; each name in it
becomes a row. Lines that the tables have already are passed over, by the process's random number,
the line's number and its time.

What it promises: the same log gives the same rows on any machine. A line that is no such line (cut
short by a full disk, or written by others) is passed over; how many were, and what was wrong with
the first, is one row of `refused`. Size of file and line, text and numbers are bounded.

What is missing on purpose: a process of its own for each log, as captures have. JSON of bounded
lines is all there is to read.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from dashcam._fleet.rows import judging, schema

# The recorder renames a log of 16 MiB; twice as much while another process holds its lock.
FILE_BYTES_MAX = 64 << 20
# 257 names with full histograms.
LINE_BYTES_MAX = 4 << 20
NAMES_MAX = 257
# Buckets of a histogram: `ROLLUP_BUCKETS` in crates/recorder/src/rollups.rs.
BUCKETS = 482
COUNTS = ("total", "slow", "failed", "sum_ns", "excess_ns", "captured", "suppressed", "over_quota")

Key = tuple[str, datetime.datetime, int]
"""Identifies a line: `run`, `from_utc`, `number`."""


class Counted(NamedTuple):
    """What a log gave."""

    rows: pa.Table
    wrong: int
    why: str
    """What is wrong with the first wrong line."""


def rows(path: Path, uri: str, size: int, known: Collection[Key] = (), begin: int = 0) -> Counted:
    """The rows of the lines between the bytes `begin` and `size` that are not `known`. Raises
    Refused."""
    if size - begin > FILE_BYTES_MAX:
        raise judging.Refused(f"found {size - begin} bytes, wanted at most {FILE_BYTES_MAX}")
    found: list[dict[str, Any]] = []
    wrong, why = 0, ""
    for number, line in enumerate(_lines(path, size, begin), start=1):
        try:
            key, listed = _line(line)
        except (ValueError, RecursionError) as error:
            wrong, why = wrong + 1, why or f"line {number}: {error}"
            continue
        if key not in known:
            found += [row | {"uri": uri, "bytes": size} for row in listed]
    return Counted(pa.Table.from_pylist(found, schema=schema.arrow(schema.ROLLUPS, folders=True)), wrong, why)


def first(path: Path, size: int) -> Key | None:
    """What identifies the first line that is whole and right, of those in the first 4 MiB. None: there
    is none."""
    for line in _lines(path, min(size, LINE_BYTES_MAX), 0):
        with contextlib.suppress(ValueError, RecursionError):
            return _line(line)[0]
    return None


def _lines(path: Path, size: int, begin: int) -> Iterator[bytes]:
    """Whole lines; the last one may still be in the writing."""
    try:
        with open(path, "rb") as file:
            file.seek(begin)
            data = file.read(size - begin)
    except OSError as error:
        raise judging.Refused(f"cannot be read: {error.strerror}") from None
    return iter(data[:data.rfind(b"\n") + 1].splitlines())


def _line(line: bytes) -> tuple[Key, list[dict[str, Any]]]:
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"found {len(line)} bytes, wanted at most {LINE_BYTES_MAX}")
    whole = json.loads(line)
    if not isinstance(whole, dict) or whole.get("schema") != 1:
        raise ValueError("found no counts of requests, wanted an object with \"schema\": 1")
    requests = whole.get("requests")
    if not isinstance(requests, list) or len(requests) > NAMES_MAX:
        raise ValueError(f"requests: wanted a list of at most {NAMES_MAX}")
    labels = judging.labels(whole.get("labels"))
    begin, end = _utc(whole, "from_epoch_ns"), _utc(whole, "to_epoch_ns")
    hour = begin.replace(minute=0, second=0, microsecond=0)
    run, number = judging.text(whole.get("run")), _count(whole, "number")
    origin = judging.named_labels(labels) | {
        "day": begin.date(), "service": judging.text(whole.get("service")) or "unknown", "host": judging.text(whole.get("host")),
        "pid": _count(whole, "pid"), "started_utc": _utc(whole, "started_epoch_ns"), "run": run, "number": number,
        "is_last": whole.get("last") is True, "hour_utc": hour, "from_utc": begin, "to_utc": end,
    }
    # A last line may have no requests: its one row says that the process ended in order.
    none: dict[str, Any] = {"request": None, "bucket": [], "bucket_count": []} | dict.fromkeys(COUNTS, 0)
    return (run, begin, number), [origin | row for row in map(_request, requests)] or [origin | none]


def _request(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError("requests: wanted objects")
    name = given.get("name")
    histogram = given.get("histogram")
    if not isinstance(histogram, list) or len(histogram) > BUCKETS:
        raise ValueError(f"histogram: wanted a list of at most {BUCKETS}")
    counts = {}
    for pair in histogram:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(part) is int for part in pair) and 0 <= pair[0] < BUCKETS):
            raise ValueError("histogram: wanted pairs of bucket and count")
        counts[pair[0]] = min(judging.INT_MAX, max(0, pair[1]))
    row: dict[str, Any] = {column: _count(given, column) for column in COUNTS}
    for column in ("typical_ns", "limit_ns"):
        row[column] = None if given.get(column) is None else _count(given, column)
    return row | {"request": None if name is None else judging.text(name), "bucket": list(counts), "bucket_count": list(counts.values())}


def _count(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if type(value) is not int or not 0 <= value <= judging.INT_MAX:
        raise ValueError(f"{name}: wanted a whole number")
    return value


def _utc(given: dict[str, Any], name: str) -> datetime.datetime:
    return judging.utc(_count(given, name))
