"""Answers to `why`, `trend` and `show`: as data, as JSON and as text.

How it works: a question's rows are joined here, where there are hundreds of them; intervals come
from `statistics`, words from `wording`.

What it promises: excess that no cause explains is a line of its own. An interval is given where
there are enough hosts for one, else null. `captured` says of what the shares are.
"""

# Ibis and pyarrow have no types; what pyright infers from their source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dashcam._fleet.ask import captures, questions, statistics, tails, wording

# What an answer is about.
ALL = "all slow requests that were counted, divided among causes as the captured ones are"
CAPTURED = "the slow requests that were captured; requests that no capture has are not counted"
# Names listed of what a cause touched.
NAMES_MAX = 5
Row = dict[str, Any]


class Why(NamedTuple):
    """The causes, the most expensive first."""

    totals: Row
    by: tuple[str, ...]
    groups: list[Row]
    more: int

    @property
    def causes(self) -> list[Row]:
        """The groups; with the default grouping each is a cause."""
        return self.groups

    def json(self) -> Row:
        """As `dashcam fleet why --json` prints it."""
        return whole({"schema": 1, "of": ALL if self.totals["counted"] else CAPTURED, "by": list(self.by), **self.totals, "groups": self.groups, "more": self.more})

    @property
    def text(self) -> str:
        """As `dashcam fleet why` prints it."""
        return wording.why(self.totals, self.by, self.groups, self.more)


class Trend(NamedTuple):
    """What causes cost in each day or hour."""

    by: str
    causes: list[Row]

    def json(self) -> Row:
        """As `dashcam fleet trend --json` prints it."""
        return whole({"schema": 1, "of": CAPTURED, "by": self.by, "causes": self.causes})

    @property
    def text(self) -> str:
        """As `dashcam fleet trend` prints it."""
        return wording.trend(self.by, self.causes)


class Shown(NamedTuple):
    """One cause."""

    cause: Row

    def json(self) -> Row:
        """As `dashcam fleet show --json` prints it."""
        return whole({"schema": 1, "of": CAPTURED, **self.cause})

    @property
    def text(self) -> str:
        """As `dashcam fleet show` prints it."""
        return wording.show(self.cause)


def why(all_: questions.Asked, by: tuple[str, ...], top: int, folder: Path | None) -> Why:
    """Groups ranked by excess, with intervals."""
    per_host = all_.engine.keep("asked_hosts", questions.per_host(all_))
    counted = questions.rows(questions.counts(all_))
    seen = _versions(questions.rows(questions.versions(per_host)), counted)
    hosts = questions.rows(questions.totals(per_host))
    totals = _totals(all_, seen, hosts, counted)
    represented_ns = totals["excess_ns"] - (totals["not_captured_ns"] or 0.0)
    groups = questions.rows(questions.ranked(all_, by))
    groups.sort(key=lambda row: (-row["excess_ns"], [str(row[name]) for name in by]))
    # The rest is asked of the few that are shown.
    shown = questions.of_groups(all_, by, groups[:top])
    whole = {_key(row, by): row for row in questions.rows(questions.groups(shown, by))}
    intervals = _intervals(questions.by_host(shown, by).to_pyarrow(), hosts, by)
    worst = {_key(row, by): row for row in questions.rows(questions.worst(shown, by))}
    versions = _listed(questions.rows(questions.touched(shown, by, "version")), by, "version")
    requests = _listed(questions.rows(questions.touched(shown, by, "request")), by, "request")
    tail = tails.tails(all_, groups[:top]) if by == questions.CAUSE else {}
    found = []
    for rank, key in enumerate([_key(row, by) for row in groups[:top]], start=1):
        row = whole[key]
        worst_row = worst[key]
        row |= {
            "rank": rank,
            "share": _share(row["excess_ns"], totals["excess_ns"]),
            "share_95": _of(intervals.get(key), _share(represented_ns, totals["excess_ns"])),
            "slow_per_million": _per_million(row["slow"], totals["counts"], row.get("service")),
            "versions": versions[key],
            "requests": requests[key],
            "worst": _worst(worst_row, folder),
        }
        if by == questions.CAUSE:
            row |= of_cause(worst_row) | _tail(tail.get((row["service"], row["fingerprint"])))
            row["hosts_of_service"] = totals["hosts_by_service"].get(row["service"], 0)
            row["versions_without"] = [
                one for one in seen.get(row["service"], []) if one["version"] not in {v["version"] for v in versions[key]}]
        found.append(row)
    del totals["hosts_by_service"]
    totals["counts"] = list(totals["counts"].values())
    named_ns = sum(row["excess_ns"] for row in groups)
    totals["unexplained_ns"] = max(0.0, represented_ns - named_ns)
    totals["unexplained_share"] = _share(totals["unexplained_ns"], totals["excess_ns"])
    return Why(totals, by, found, max(0, len(groups) - top))


def trend(all_: questions.Asked, fingerprint: str | None, by: str, top: int) -> Trend:
    """Buckets of the most expensive causes; a bucket without any capture of the service is null."""
    rows = questions.rows(questions.buckets(all_, by))
    days = questions.rows(questions.captured(all_, by))
    captured = {(row["service"], row["bucket_utc"]): row for row in days}
    steps = _steps([row["bucket_utc"] for row in days], by)
    causes: dict[tuple[str, ...], dict[datetime.datetime, Row]] = {}
    for row in rows:
        if fingerprint is None or row["fingerprint"].startswith(fingerprint):
            causes.setdefault(_key(row, questions.CAUSE), {})[row["bucket_utc"]] = row
    names = {_key(row, questions.CAUSE): row for row in questions.rows(questions.worst(all_, questions.CAUSE))}
    found = []
    for key, buckets in causes.items():
        line = []
        for step in steps:
            known = captured.get((key[0], step))
            row = buckets.get(step, {})
            line.append({
                "from_utc": step, "captures_of_service": known["captures"] if known else 0,
                "excess_ns": row.get("excess_ns", 0.0) if known else None,
                "captures": row.get("captures", 0), "hosts": row.get("hosts", 0),
            })
        total = sum(row["excess_ns"] for row in buckets.values())
        found.append({"service": key[0], "fingerprint": key[1], "excess_ns": total} | of_cause(names[key]) | {"buckets": line})
    found.sort(key=lambda cause: (-cause["excess_ns"], cause["service"], cause["fingerprint"]))
    return Trend(by, found[:top])


def show(all_: questions.Asked, fingerprint: str, folder: Path | None) -> Shown:
    """The cause whose fingerprint begins so. Raises LookupError."""
    findings = all_.findings
    own = findings.filter(findings.fingerprint.startswith(fingerprint)) if fingerprint else findings.limit(0)
    only = all_._replace(findings=own)
    by = questions.CAUSE
    groups = questions.rows(questions.groups(only, by))
    if len(groups) != 1:
        names = ", ".join(sorted(f"{row['fingerprint']} ({row['service']})" for row in groups)[:NAMES_MAX])
        raise LookupError(f"fingerprint: found {fingerprint!r}, which {len(groups) or 'no'} {'causes have' if groups else 'cause has'}"
                          + (f" ({names}); --service chooses a service" if groups else "; `dashcam fleet why` shows them")
                          + ", wanted the beginning of one")
    [row] = groups
    rows = questions.rows(questions.listed(only, NAMES_MAX))
    listed = [_worst(one, folder) | {name: one[name] for name in ("captured_utc", "host", "version", "confidence")} for one in rows]
    key = _key(row, by)
    touched = {
        name: _listed(questions.rows(questions.touched(only, by, column)), by, column)[key]
        for name, column in (("versions", "version"), ("requests", "request"), ("hosts_named", "host"))
    }
    with_it = {one["version"] for one in touched["versions"]}
    without = [one for one in versions_seen(all_).get(row["service"], []) if one["version"] not in with_it]
    tail = tails.tails(all_, [row])
    more = _tail(tail.get((row["service"], row["fingerprint"]))) | {"versions_without": without, "worst": listed[0], "listed": listed, "more": max(0, row["captures"] - len(listed))}
    return Shown(row | of_cause(rows[0]) | {"advice": rows[0]["advice"]} | touched | more)


def whole(answer: Row) -> Row:
    """An answer that JSON can hold."""
    found: Row = plain(answer)
    return found


def plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return value


def _totals(all_: questions.Asked, seen: dict[str, list[Row]], hosts: list[Row], counted: list[Row]) -> Row:
    by_service: dict[str, set[str]] = {}
    for row in [*hosts, *counted]:
        by_service.setdefault(row["service"], set()).add(row["host"])
    represented_ns = sum(row["excess_ns"] for row in hosts)
    rest = None if all_.uncaptured is None else questions.rows(all_.uncaptured)
    rest_ns = None if rest is None else sum(row["excess_ns"] for row in rest)
    captured = sum(row["captures"] for row in hosts)
    return {
        "services": len(by_service),
        "hosts": len(set().union(*by_service.values())),
        "versions": len({one["version"] for listed in seen.values() for one in listed} - {None}),
        "captures": captured,
        "damaged": sum(row["damaged"] for row in hosts),
        "refused": questions.rows(questions.refused(all_))[0]["count"],
        "from_utc": min((row["first_utc"] for row in hosts), default=None),
        "to_utc": max((row["last_utc"] for row in hosts), default=None),
        "slow_requests": sum(row["slow_requests"] for row in hosts),
        "excess_ns": represented_ns + (rest_ns or 0.0),
        "captured_excess_ns": sum(row["seen_ns"] for row in hosts),
        "counted": bool(counted),
        "counts": _counts(counted, rest or []),
        "uncounted": sorted({row["service"] for row in hosts} - {row["service"] for row in counted}),
        "not_captured_ns": rest_ns,
        "rules_versions": questions.rules(all_, captured),
        "hosts_by_service": {name: len(found) for name, found in by_service.items()},
    }


def _counts(counted: list[Row], rest: list[Row]) -> dict[str, Row]:
    """What was counted, by service."""
    names = ("total", "slow", "failed", "excess_ns", "captured", "suppressed", "over_quota", "processes", "open")
    found: dict[str, Row] = {}
    for row in sorted(counted, key=lambda row: row["service"]):
        whole = found.setdefault(row["service"], {"service": row["service"], **dict.fromkeys(names, 0), "not_captured_slow": 0,
                                                  "not_captured_ns": 0.0})
        for name in names:
            whole[name] += row[name]
    for row in rest:
        found[row["service"]] |= {"not_captured_slow": row["slow"], "not_captured_ns": row["excess_ns"]}
    return found


def _per_million(slow: float, counts: dict[str, Row], service: str | None) -> float | None:
    """Slow requests in a million of the service's, or of all; None: they were not counted."""
    total = counts.get(service, {}).get("total", 0) if service else sum(row["total"] for row in counts.values())
    return slow / total * 1e6 if total else None


def _tail(tail: tails.Tail | None) -> Row:
    """p99.9 of the service, now and without the cause."""
    return {"p999_ns": tail and tail.p999_ns, "p999_without_ns": tail and tail.without_ns}


def _of(interval: list[float] | None, part: float) -> list[float] | None:
    """An interval of a share of a part, as one of the whole."""
    return interval and [bound * part for bound in interval]


def versions_seen(all_: questions.Asked) -> dict[str, list[Row]]:
    """The versions of each service, by time."""
    return _versions(questions.rows(questions.versions(questions.per_host(all_))), questions.rows(questions.counts(all_)))


def _versions(rows: list[Row], counted: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    requests: dict[tuple[str, str | None], Row] = {}
    for row in counted:
        whole = requests.setdefault((row["service"], row["version"]), row | {"requests": 0, "hosts": 0})
        whole |= {"requests": whole["requests"] + row["total"], "hosts": whole["hosts"] + 1,
                  "first_utc": min(whole["first_utc"], row["first_utc"]), "last_utc": max(whole["last_utc"], row["last_utc"])}
    for row in rows:
        row["requests"] = requests.pop((row["service"], row["version"]), {"requests": None})["requests"]
    kept = ("service", "version", "requests", "hosts", "first_utc", "last_utc")
    rows += [{name: row[name] for name in kept} | {"captures": 0} for row in requests.values()]
    for row in sorted(rows, key=lambda row: (row["first_utc"], row["version"] or "")):
        found.setdefault(row.pop("service"), []).append(row)
    return found


def _intervals(found: pa.Table, hosts: list[Row], by: tuple[str, ...]) -> dict[tuple[str, ...], list[float] | None]:
    """An interval for each group; a host of two services is one host."""
    names = sorted({row["host"] for row in hosts})
    place = {name: i for i, name in enumerate(names)}
    lines = _codes(found["host"], place)
    # A number for each combination of values, from the numbers of each column's values.
    columns = [found[name].combine_chunks().dictionary_encode("encode") for name in by]
    code = np.zeros(found.num_rows, dtype=np.int64)
    for column in columns:
        code = code * len(column.dictionary) + _numbers(column.indices)
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    keys = [tuple(found[name][int(row)].as_py() for name in by) for row in first]
    excess = np.zeros((len(names), len(keys)))
    np.add.at(excess, (lines, group), _numbers(found["excess_ns"].combine_chunks()))
    totals = np.zeros(len(names))
    for row in hosts:
        totals[place[row["host"]]] += row["excess_ns"]
    return {key: list(bounds) if bounds else None for key, bounds in zip(keys, statistics.shares(excess, totals))}


def _codes(column: pa.ChunkedArray, place: dict[str, int]) -> Any:
    """The number of each value, by `place`."""
    encoded = column.combine_chunks().dictionary_encode()
    known = np.array([place[value] for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    return known[_numbers(encoded.indices)] if len(known) else np.zeros(0, dtype=np.int64)


def _numbers(column: pa.Array) -> Any:
    """A column without missing values for NumPy. (pyarrow's own `to_numpy` loads pandas.)"""
    return np.from_dlpack(column)


def _listed(rows: list[Row], by: tuple[str, ...], column: str) -> dict[tuple[str, ...], list[Row]]:
    """The values of a column for each group, the most expensive first."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (-row["excess_ns"], str(row[column]))):
        found.setdefault(_key(row, by), []).append({column: row[column], "captures": row["captures"], "hosts": row["hosts"]})
    return found


def _steps(times: list[datetime.datetime], by: str) -> list[datetime.datetime]:
    """All buckets from the first to the last."""
    if not times:
        return []
    step = datetime.timedelta(days=1) if by == "day" else datetime.timedelta(hours=1)
    found = [min(times)]
    while found[-1] < max(times):
        found.append(found[-1] + step)
    return found


def _worst(row: Row, folder: Path | None) -> Row:
    capture = captures.Capture(folder, row["uri"])
    return {"capture_id": row["capture_id"], "path": capture.path, "on_host": capture.host, "excess_ns": row["seen_ns"],
            "is_there": capture.is_there, "summary": row["summary"], "advice": row["advice"]}


def of_cause(row: Row) -> Row:
    names = ("cause", "place_function", "place_file", "place_line", "culprit_function", "culprit_file", "culprit_line", "target")
    return {name: row[name] for name in names}


def _key(row: Row, by: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(row[name] for name in by)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
