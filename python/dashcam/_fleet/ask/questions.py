"""The questions, each written once as Ibis expressions: DuckDB answers them here, and Spark could.

How it works: `Tables` holds an expression for each table, after the filters. `asked` calculates what
all questions need, once; the engine keeps it. A question is a few more expressions, whose rows
(hundreds, not millions) go to `answers`.

What it promises: a capture counts once, however often it was indexed: the rows by the newest rules
are used. A slow request counts once: captures of one process overlap, so a request may be in
several. It is counted in the capture that has most of it; what a capture's causes weigh is reduced
by the part of its excess that other captures have. Ties are decided by the capture's id, so every
engine gives the same rows.
"""

# Ibis has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

import ibis
import ibis.expr.types as ir

# What names a cause: two services may have the same file and function.
CAUSE = ("service", "fingerprint")
# What `--by` may group by instead.
BY = ("service", "version", "environment", "region", "host", "request", "cause")
# Findings of one cause on one host within so long are one incident.
INCIDENT_SECONDS = 600
UNKNOWN = "unknown"
PROCESS = ("service", "host", "pid", "started_utc")


class Span(NamedTuple):
    """Which captures are asked about."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    service: str | None = None


class Tables(NamedTuple):
    """The tables as expressions, each row once."""

    captures: ir.Table
    findings: ir.Table
    requests: ir.Table
    refused: ir.Table


def once(captures: ir.Table, findings: ir.Table, requests: ir.Table, refused: ir.Table, rules: list[str]) -> Tables:
    """Each capture once, by the newest rules; `rules` are the versions there are, oldest first."""
    age = captures.rules_version.cases(*((version, i) for i, version in enumerate(rules)), else_=-1)
    ordered = captures.mutate(rules_age=age)
    newest = ibis.row_number().over(group_by="capture_id", order_by=[ibis.desc("rules_age"), "uri"])
    captures = ordered.mutate(nth=newest).filter(lambda t: t.nth == 0).drop("nth", "rules_age")
    return _of(captures, findings.distinct(on=["capture_id", "rules_version", "rank"], keep="first"),
               requests.distinct(on=["capture_id", "rules_version", "request_id"], keep="first"), refused.distinct())


def where(tables: Tables, captures: ir.Table) -> Tables:
    """What belongs to these captures."""
    return _of(captures, tables.findings, tables.requests, tables.refused)


def chosen(table: ir.Table, span: Span) -> ir.Table:
    """What a table has of a span of time and a service. The layout knows days and services: files of
    others are not read."""
    if span.since is not None:
        table = table.filter(table.day >= span.since.date(), table.captured_utc >= span.since)
    if span.until is not None:
        table = table.filter(table.day <= span.until.date(), table.captured_utc < span.until)
    if span.service is not None:
        table = table.filter(table.service == span.service)
    return table


def _of(captures: ir.Table, findings: ir.Table, requests: ir.Table, refused: ir.Table) -> Tables:
    keys = captures.select("capture_id", "rules_version")
    on = ["capture_id", "rules_version"]
    return Tables(captures, findings.semi_join(keys, on), requests.semi_join(keys, on), refused)


class Asked(NamedTuple):
    """What questions are asked of: captures and findings with what each costs, kept by the engine,
    and the tables they are from."""

    tables: Tables
    captures: ir.Table
    findings: ir.Table


# Of a finding so much is kept; its texts are read for the few that are shown.
KEPT = ("capture_id", "rank", "service", "fingerprint", "cause", "confidence", "version", "environment", "region", "host",
        "captured_utc", "first_utc", "last_utc", "request", "excess_ns")


def asked(tables: Tables, keep: Callable[[str, ir.Table], ir.Table]) -> Asked:
    """Calculates what all questions need once. Captures get `own_requests` and `own_ns`: slow
    requests that no other capture has more of, and their excess. Findings, but for those without a
    name, get `weight_ns`: their part of that excess."""
    nth = ibis.row_number().over(
        group_by=[*PROCESS, "request_id"], order_by=[ibis.desc("duration_ns"), "captured_utc", "capture_id"])
    counted = tables.requests.mutate(is_own=nth == 0)
    own = counted.group_by("capture_id").agg(
        own_requests=counted.is_own.cast("int64").sum(), own_ns=counted.is_own.ifelse(counted.excess_ns, 0).sum(),
        all_ns=counted.excess_ns.sum())
    joined = tables.captures.drop("labels").left_join(own, "capture_id").drop("capture_id_right")
    numbers = {name: joined[name].fill_null(0).cast("int64") for name in ("own_requests", "own_ns", "all_ns")}
    captures = keep("asked_captures", joined.mutate(**numbers))
    named = tables.findings.filter(tables.findings.cause != UNKNOWN).select(*KEPT)
    priced = named.join(captures.select("capture_id", "own_ns", "all_ns"), "capture_id")
    part = priced.own_ns.cast("float64") / priced.all_ns.nullif(0).cast("float64")
    findings = keep("asked_findings", priced.mutate(weight_ns=priced.excess_ns.cast("float64") * part.fill_null(0.0)).drop("own_ns", "all_ns"))
    return Asked(tables, captures, findings)


def of_captures(all_: Asked, captures: ir.Table) -> Asked:
    """What belongs to some of the captures."""
    return all_._replace(captures=captures, findings=all_.findings.semi_join(captures.select("capture_id"), "capture_id"))


def within(all_: Asked, span: Span) -> Asked:
    """What is of a span of time."""
    return of_captures(all_, chosen(all_.captures, span))


def totals(all_: Asked) -> ir.Table:
    """For each service and host: captures, slow requests, excess; one row each."""
    captures = all_.captures
    return captures.group_by("service", "host").agg(
        captures=captures.count(), slow_requests=captures.own_requests.sum().cast("int64"), excess_ns=captures.own_ns.sum().cast("float64"),
        damaged=(captures.damage.length() > 0).cast("int64").sum().cast("int64"),
        first_utc=captures.captured_utc.min(), last_utc=captures.captured_utc.max())


def versions(all_: Asked) -> ir.Table:
    """Captures of each version of each service."""
    captures = all_.captures
    return captures.group_by("service", "version").agg(
        captures=captures.count(), hosts=captures.host.nunique(), first_utc=captures.captured_utc.min(),
        last_utc=captures.captured_utc.max())


def rules(all_: Asked) -> ir.Table:
    """Versions of the rules that judged the captures."""
    return all_.captures.select("rules_version").distinct()


def refused(all_: Asked) -> ir.Table:
    """How many files could not be read."""
    return all_.tables.refused.agg(count=all_.tables.refused.count())


def by_host(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """Excess of each group on each host: what intervals are made from."""
    keys = list(dict.fromkeys([*by, "host"]))
    return all_.findings.group_by(keys).agg(excess_ns=all_.findings.weight_ns.sum())


def groups(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The groups with what they touched."""
    found = all_.findings
    confirmed = (found.confidence == "confirmed").ifelse(found.capture_id, ibis.null("string"))
    return found.group_by(list(by)).agg(
        excess_ns=found.weight_ns.sum(), captures=found.capture_id.nunique(), hosts=found.host.nunique(),
        causes=found.fingerprint.nunique(), confirmed=confirmed.nunique(),
        first_utc=found.first_utc.min(), last_utc=found.last_utc.max())


def touched(all_: Asked, by: tuple[str, ...], column: str) -> ir.Table:
    """The values of a column that each group has (versions, requests), with their excess."""
    found = all_.findings
    keys = list(dict.fromkeys([*by, column]))
    return found.group_by(keys).agg(excess_ns=found.weight_ns.sum(), captures=found.capture_id.nunique(),
                                    hosts=found.host.nunique())


def worst(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The finding of each group that cost most, whole, with the file of its capture."""
    found = all_.findings
    nth = ibis.row_number().over(group_by=list(by), order_by=[ibis.desc("weight_ns"), ibis.desc("excess_ns"), "capture_id", "rank"])
    return _whole(all_, found.mutate(nth=nth).filter(lambda t: t.nth == 0))


def listed(all_: Asked, most: int) -> ir.Table:
    """The most expensive findings, whole, with the files of their captures."""
    order = [ibis.desc("weight_ns"), "capture_id", "rank"]
    return _whole(all_, all_.findings.order_by(order).limit(most)).order_by(order)


def buckets(all_: Asked, by: str) -> ir.Table:
    """Excess, captures and hosts of each cause in each day or hour."""
    timed = all_.findings.mutate(bucket_utc=all_.findings.captured_utc.truncate(by))
    return timed.group_by([*CAUSE, "bucket_utc"]).agg(
        excess_ns=timed.weight_ns.sum(), captures=timed.capture_id.nunique(), hosts=timed.host.nunique())


def captured(all_: Asked, by: str) -> ir.Table:
    """Captures of each service in each day or hour: where there is none nothing is known."""
    timed = all_.captures.mutate(bucket_utc=all_.captures.captured_utc.truncate(by))
    return timed.group_by(["service", "bucket_utc"]).agg(captures=timed.count(), hosts=timed.host.nunique())


def incidents(all_: Asked) -> ir.Table:
    """Incidents of each cause on each host: intervals of ten minutes with a finding, by number since
    1970."""
    found = all_.findings
    interval = (found.captured_utc.epoch_seconds() / INCIDENT_SECONDS).floor().cast("int64")
    return found.mutate(interval=interval).group_by([*CAUSE, "host", "interval"]).agg(excess_ns=found.weight_ns.sum())


def _whole(all_: Asked, found: ir.Table) -> ir.Table:
    """Findings with all of their columns and the file of their capture."""
    priced = found.select("capture_id", "rank", "weight_ns")
    whole = all_.tables.findings.join(priced, ["capture_id", "rank"])
    return whole.join(all_.captures.select("capture_id", "uri"), "capture_id")


def rows(expression: Any) -> list[dict[str, Any]]:
    """The rows of a question."""
    found: list[dict[str, Any]] = expression.to_pyarrow().to_pylist()
    return found
