"""What of a row leaves the host: nothing that a program took from its users, as far as that is known.

How it works: columns are chosen, not searched. Amounts, times, ids and names of code leave as they
are. Text that may hold values is made anew from those (a finding's sentence), reduced to its kind (a
reason), or left out (what was waited for: peers, paths, commands of child processes). Names of
requests are needed to ask anything; parts of them that look like values become `:n`, `:id`, `:email`.

What it promises: attributes of requests, spans and events are in no row at all. A new column is left
out until it is listed here (`_COLUMNS`).

What it cannot know: a name of a request that is a secret without looking like a value. Give requests
the names of routes.
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from dashcam._fleet.rows import schema

Row = dict[str, Any]
# Labels that say what runs where. Operators give them; others may be anything.
LABELS = ("version", "environment", "region", "git.", "service.", "deployment.", "cloud.", "k8s.", "host.")
# The first words of reasons that the recorder gives; `snap` has a text of the program's own.
REASONS = ("slow", "error", "metric", "percentile", "when", "signal", "exit", "crash")
MASKS = (
    (re.compile(r"\?.*"), ""),
    (re.compile(r"[^\s/@]+@[^\s/]+"), ":email"),
    (re.compile(r"\b[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{13,}\b"), ":id"),
    (re.compile(r"(?<![\w.-])\d+(?![\w.-])"), ":n"),
    # Long words with digits in them, and words that are longer than names are.
    (re.compile(r"(?<![\w%.-])(?=[\w%.-]*\d)[\w%.-]{12,}|[\w%.-]{60,}"), ":id"),
    (re.compile(r"\d{5,}"), ":n"),
)


def redacted(rows: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Rows by table, as they may leave the host."""
    return {name: _table(schema.named(name), table) for name, table in rows.items()}


def name(text: str | None) -> str | None:
    """The name of a request without what looks like a value."""
    if text is None:
        return None
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def _table(table: schema.Table, found: pa.Table) -> pa.Table:
    keep = _COLUMNS[table.name]
    rows = [{column: how(row[column], row) for column, how in keep.items() if column in row} for row in found.to_pylist()]
    return pa.Table.from_pylist(rows, schema=found.schema)


def _same(value: Any, row: Row) -> Any:
    return value


def _name(value: Any, row: Row) -> Any:
    return name(value)


def _path(value: Any, row: Row) -> Any:
    """Functions as they are, and the name of the request before them."""
    return None if value is None else " > ".join(part if part.endswith("()") else str(name(part)) for part in value.split(" > "))


def _file(value: Any, row: Row) -> Any:
    """Without folders: they may be those of a user."""
    return None if value is None else value.replace("\\", "/").rpartition("/")[2]


def _reason(value: Any, row: Row) -> Any:
    kind = str(value).partition(":")[0]
    return kind if kind in REASONS else "asked for"


def _labels(value: Any, row: Row) -> Any:
    return [(key, text) for key, text in value if key.startswith(LABELS)]


def _damage(value: Any, row: Row) -> Any:
    return ["damaged"] if value else []


def _why(value: Any, row: Row) -> Any:
    return "it was not read: the text remained on its host"


def _summary(value: Any, row: Row) -> Any:
    """A sentence of what is in other columns."""
    def place(of: str) -> str:
        line = "" if row[f"{of}_line"] is None else f":{row[f'{of}_line']}"
        return f"{_file(row[f'{of}_file'], row) or ''}{line} {row[f'{of}_function']}()".strip()

    text = f"{row['cause']}" + (f" at {place('place')}" if row["place_function"] else "")
    return text + (f", because of {place('culprit')}" if row["culprit_function"] else "")


def _columns(names: str, **others: Callable[[Any, Row], Any]) -> dict[str, Callable[[Any, Row], Any]]:
    return dict.fromkeys(names.split(), _same) | others


_ORIGIN = "day service capture_id captured_utc version environment region host pid started_utc rules_version uri bytes"
# Table -> column -> what becomes of it. Others are NULL, or empty.
_COLUMNS: dict[str, dict[str, Callable[[Any, Row], Any]]] = {
    "captures": _columns(
        f"{_ORIGIN} from_utc total_requests slow_requests first_slow_utc excess_ns unexplained_ns sources_off losses runtime dashcam_version",
        reason=_reason, slow=_name, labels=_labels, damage=_damage),
    "findings": _columns(
        f"{_ORIGIN} rank cause confidence fingerprint excess_ns share slow_requests normal_requests first_utc last_utc place_function "
        "place_line place_module culprit_function culprit_line advice trace_ids",
        request=_name, path=_path, place_file=_file, culprit_file=_file, summary=_summary),
    "requests": _columns(
        f"{_ORIGIN} request_id begin_utc duration_ns excess_ns queued_ns run_ns ready_ns wait_ns limit_ns is_error is_open trace_id",
        name=_name),
    # Places are `file:line function()`, without folders.
    "parts": _columns(f"{_ORIGIN} request_id number cause fingerprint place culprit duration_ns intervals"),
    "rollups": _columns(
        f"{_ORIGIN} run number is_last hour_utc from_utc to_utc total slow failed sum_ns excess_ns typical_ns limit_ns captured suppressed "
        "over_quota bucket bucket_count",
        request=_name),
    "refused": _columns("uri bytes", why=_why),
}
