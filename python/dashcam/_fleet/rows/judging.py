"""A capture as rows of the fleet's tables: one pure function, `rows`.

How it works: the reader judges the file as `dashcam why` does, by the capture's own rules; the rows
are copied from its verdict, its slow requests and META. The id of a capture is that of its META; of one
without (older recorders) a hash of its bytes.

What it promises: the same file and the same version of dashcam give the same rows, on any machine
(unless `native_names` asks for this machine's binaries). A file that is no capture raises
`Refused`, with what was found and what was wanted. Text is bounded and times are checked: META is
written by others.

What is missing on purpose: limits of time and memory. `children` has them, since only a process can
be stopped from outside.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from dashcam import reading
from dashcam._fleet.rows import parts, schema
from dashcam._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dashcam.shapes import Cause, Verdict

# Largest file that is judged: a full box of the default size makes 54 MiB.
FILE_BYTES_MAX = 64 << 20
# Captures are between these days: another time is a clock that was never set, or a damaged file.
EPOCH_NS_MIN = 946_684_800 * 10**9
EPOCH_NS_MAX = 4_102_444_800 * 10**9
# The largest amount in an int64 column.
INT_MAX = 2**63 - 1
# Labels that are columns of their own, with the keys that are tried, in order.
NAMED_LABELS = {
    "version": ("version", "service.version"),
    "environment": ("environment", "deployment.environment.name", "deployment.environment"),
    "region": ("region", "cloud.region"),
}

Rows = dict[str, pa.Table]


class Refused(Exception):
    """A file is not judged; the text has what was found and what was wanted."""


def rows(path: Path, uri: str, *, native_names: bool = False, bytes_max: int = FILE_BYTES_MAX) -> Rows:
    """The rows of `captures`, `findings`, `requests` and `parts` for the capture at `path`, which is called
    `uri` in them. Raises Refused."""
    size, capture_id = _identity(path, bytes_max)
    try:
        capture = reading.Capture(path, native_names=native_names)
        origin = _Origin(capture, capture_id, native_names)
        verdict = capture.why().json()
    except (OSError, ValueError) as error:
        # Without the folder: the row is the same, wherever the file is.
        raise Refused(str(error).replace(str(path), uri)[:schema.TEXT_MAX]) from None
    causes = pa.table(capture.tables["causes"]).to_pylist()
    found = [_finding(origin, cause, judged) for cause, judged in zip(causes, verdict["causes"])]
    about_file = {"uri": uri, "bytes": size}
    slow = _requests(origin, capture)
    first = {"first_slow_utc": min((row["begin_utc"] for row in slow), default=None)}
    listed = [_capture(origin, verdict, capture, found) | about_file | first]
    return {
        "captures": _table(schema.CAPTURES, origin, listed),
        "findings": _table(schema.FINDINGS, origin, found),
        "requests": _table(schema.REQUESTS, origin, slow),
        "parts": _table(schema.PARTS, origin, _parts(capture, causes) if slow else []),
    }


def read(path: Path, uri: str, capture_id: str, *, native_names: bool = False, bytes_max: int = FILE_BYTES_MAX) -> reading.Capture:
    """The capture at `path`, which has this id. Raises Refused."""
    _, own_id = _identity(path, bytes_max)
    try:
        capture = reading.Capture(path, native_names=native_names)
        found = _Origin(capture, own_id, native_names).columns["capture_id"]
    except (OSError, ValueError) as error:
        raise Refused(str(error).replace(str(path), uri)[:schema.TEXT_MAX]) from None
    if found != capture_id:
        raise Refused(f"found the capture {found}, wanted {capture_id}, which had this name when it was judged")
    return capture


def refusal(uri: str, size: int, why: str) -> pa.Table:
    """The row of `refused` for a file."""
    row = {"uri": uri, "bytes": size, "why": text(why)}
    return pa.Table.from_pylist([row], schema=schema.arrow(schema.REFUSED))


def _identity(path: Path, bytes_max: int) -> tuple[int, str]:
    """The file's size, and the capture's id."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > bytes_max:
                raise Refused(f"found {size} bytes, wanted at most {bytes_max}")
            digest = hashlib.sha256()
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror}") from None
    return size, digest.hexdigest()[:32]


def _own_id(meta: dict[str, Any]) -> str | None:
    """The id that the recorder gave to the capture."""
    given = text(meta.get("capture_id"))
    return given if re.fullmatch("[0-9a-f]{32}", given) else None


class _Origin:
    """What the rows of one capture have in common."""

    def __init__(self, capture: reading.Capture, capture_id: str, native_names: bool) -> None:
        [self.row] = pa.table(capture.tables["capture"]).to_pylist()
        meta = json.loads(self.row["meta_json"])
        self.meta: dict[str, Any] = meta if isinstance(meta, dict) else {}
        self.start_ns = int(self.row["start_ns"])
        self.start_epoch_ns = _int(self.meta.get("start_epoch_ns"))
        self.labels = labels(self.meta.get("labels"))
        self.service = text(self.row["service"]) or "unknown"
        captured_utc = self.utc(self.row["to_ns"])
        self.day = captured_utc.date()
        self.columns: dict[str, Any] = {
            "capture_id": _own_id(self.meta) or capture_id, "captured_utc": captured_utc, "host": text(self.row["host"]),
            "pid": self.row["pid"], "started_utc": self.utc(self.start_ns),
            "rules_version": __version__ + ("+native" if native_names else ""),
        }
        self.columns |= named_labels(self.labels)

    def utc(self, t_ns: int) -> datetime.datetime:
        """A time of the capture by the wall clock, in microseconds. Raises ValueError for a time
        that no clock shows."""
        return utc(self.start_epoch_ns + int(t_ns) - self.start_ns)


def _capture(
    origin: _Origin, verdict: Verdict, capture: reading.Capture, found: list[dict[str, Any]]
) -> dict[str, Any]:
    requests = verdict["requests"]
    excess_ns = _int(requests["excess_ns"])
    named_ns = sum(row["excess_ns"] for row in found if row["cause"] != "unknown")
    off = pa.table(capture.tables["sources"]).to_pylist()
    return {
        "from_utc": origin.utc(origin.row["from_ns"]),
        "reason": origin.row["reason"],
        "slow": origin.row["slow"],
        "total_requests": _int(requests["total"]),
        "slow_requests": _int(requests["slow"]),
        "excess_ns": excess_ns,
        "unexplained_ns": max(0, excess_ns - named_ns),
        "sources_off": [text(source["name"]) for source in off if not source["is_on"]],
        "losses": min(INT_MAX, sum(_int(loss["count"]) for loss in verdict["capture"]["losses"])),
        "damage": [text(line) for line in capture.damage[:20]],
        "labels": list(origin.labels.items()),
        "runtime": origin.row["runtime"],
        "dashcam_version": origin.meta.get("version", ""),
    }


def _finding(origin: _Origin, row: dict[str, Any], judged: Cause) -> dict[str, Any]:
    """`row` is the cause in the capture's tables, `judged` the same in `why --json`."""
    same = ("rank", "cause", "confidence", "fingerprint", "share", "slow_requests", "normal_requests", "request",
            "path", "target", "summary", "advice", "culprit_file", "culprit_line")
    found = {name: row[name] for name in same}
    for column, name in (("first_utc", "first_seen_ns"), ("last_utc", "last_seen_ns")):
        found[column] = None if row[name] is None else origin.utc(row[name])
    return found | {
        "excess_ns": _int(judged["excess_ns"]),
        "place_function": row["qualified"] or row["function"],
        "place_file": row["file"],
        "place_line": row["line"],
        "place_module": row["module"],
        "culprit_function": row["culprit_qualified"] or row["culprit_function"],
        "trace_ids": [text(trace) for trace in judged["trace_ids"]],
    }


def _requests(origin: _Origin, capture: reading.Capture) -> list[dict[str, Any]]:
    same = ["request_id", "name", "duration_ns", "excess_ns", "queued_ns", "run_ns", "ready_ns", "wait_ns", "limit_ns",
            "is_error", "is_open"]
    table = pa.table(capture.tables["requests"])
    slow: list[dict[str, Any]] = table.filter(table["excess_ns"].is_valid()).select([*same, "begin_ns"]).to_pylist()
    if not slow:
        return []
    ids = pa.table(capture.tables["traces"]).select(["owner", "request_id", "trace_id"]).to_pylist()
    traces = {row["request_id"]: row["trace_id"] for row in ids if row["owner"] == "request"}
    for row in slow:
        row["begin_utc"] = origin.utc(row.pop("begin_ns"))
        row["trace_id"] = traces.get(row["request_id"])
    return slow


def _parts(capture: reading.Capture, causes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ["request_id", "is_slow", "duration_ns", *parts.KEY]
    return parts.parts(pa.table(capture.tables["pieces"]).select(names).to_pylist(), causes)


def _table(table: schema.Table, origin: _Origin, listed: list[dict[str, Any]]) -> pa.Table:
    """Rows with what all rows of the capture have, and with the folders that they belong to."""
    whole = {"day": origin.day, "service": origin.service}
    clipped = [
        {name: text(value) if isinstance(value, str) else value for name, value in (origin.columns | row | whole).items()}
        for row in listed
    ]
    return pa.Table.from_pylist(clipped, schema=schema.arrow(table, folders=True))


def utc(epoch_ns: int) -> datetime.datetime:
    """A time in microseconds. Raises ValueError for a time that no clock shows."""
    if not EPOCH_NS_MIN <= epoch_ns < EPOCH_NS_MAX:
        raise ValueError(f"its clock: found {epoch_ns} ns since 1970, wanted a time from 2000 to 2099")
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=epoch_ns // 1000)


def labels(given: Any) -> dict[str, str]:
    """Labels of a process, by key."""
    found = given if isinstance(given, dict) else {}
    return {text(key): text(value) for key, value in sorted(found.items()) if isinstance(value, str)}


def named_labels(given: dict[str, str]) -> dict[str, Any]:
    """The labels that are columns of their own."""
    return {column: next((given[key] for key in keys if given.get(key)), None) for column, keys in NAMED_LABELS.items()}


def text(value: Any) -> str:
    """Bounded text, without lone surrogates: META is JSON, which can spell them."""
    found = value if isinstance(value, str) else ""
    return found[:schema.TEXT_MAX].encode("utf-8", "replace").decode("utf-8")


def _int(value: Any) -> int:
    """A count that fits an int64 column; 0 for what is none."""
    whole = value if isinstance(value, int) and not isinstance(value, bool) else 0
    return max(0, min(INT_MAX, whole))
