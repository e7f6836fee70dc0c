"""The questions, each written once as Ibis expressions, for DuckDB and Spark.

How it works: `Tables` holds an expression for each table, after the filters. `asked` calculates what
all questions need, once; the engine keeps it. A question is a few more expressions, whose rows
(hundreds, not millions) go to `answers`.

What it promises: a capture counts once, however often it was indexed: the rows by the newest rules
are used. A slow request counts once: captures of one process overlap, so a request may be in
several. It is counted in the capture that has most of it; what a capture's causes weigh is reduced
by the part of its excess that other captures have.

Every engine gives the same rows; sums of floating-point numbers differ in their last digits. So
ties are decided by the capture's id; no number depends on the order of rows, since a cluster
calculates the rows of a lost machine again; and no amount is cast to an integer, which engines
round in different ways.
"""

# Ibis has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

import ibis
import ibis.expr.types as ir

from dashcam._fleet.ask import estimating
from dashcam._fleet.tables.engine import Engine

# What names a cause: two services may have the same file and function.
CAUSE = ("service", "fingerprint")
# What `--by` may group by instead.
BY = ("service", "version", "environment", "region", "host", "request", "cause")
# Findings of one cause on one host within so long are one incident.
INCIDENT_SECONDS = 600
UNKNOWN = "unknown"
PROCESS = ("service", "host", "pid", "started_utc")


# Tables with rows of a capture.
OF_CAPTURES = ("findings", "requests", "parts")


class Span(NamedTuple):
    """Which captures are asked about."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    service: str | None = None


class Tables(NamedTuple):
    """The tables as expressions, after the filters."""

    captures: ir.Table
    findings: ir.Table
    requests: ir.Table
    parts: ir.Table
    rollups: ir.Table
    refused: ir.Table


def newest(stored: Tables, rules: list[str]) -> Tables:
    """Each capture once, by the newest rules, and what belongs to it. `rules` are the versions there
    are, oldest first. Findings and requests may still be there twice."""
    captures = stored.captures
    if len(rules) > 1 or not _is_unique(captures, captures.capture_id):
        age = captures.rules_version.cases(*((version, i) for i, version in enumerate(rules)), else_=-1)
        ordered = captures.mutate(rules_age=age)
        # A capture grows once, when its sources are added: the whole file is used.
        nth = ibis.row_number().over(group_by="capture_id", order_by=[ibis.desc("rules_age"), ibis.desc("bytes"), "uri"])
        captures = ordered.mutate(nth=nth).filter(lambda t: t.nth == 0).drop("nth", "rules_age")
    return where(stored, captures)


def once(tables: Tables) -> Tables:
    """Each row once."""
    keys = ["capture_id", "rules_version"]
    return tables._replace(findings=tables.findings.distinct(on=[*keys, "rank"], keep="first"),
                           requests=tables.requests.distinct(on=[*keys, "request_id"], keep="first"),
                           parts=tables.parts.distinct(on=[*keys, "request_id", "number"], keep="first"),
                           rollups=tables.rollups.distinct(on=list(estimating.COUNTED), keep="first"),
                           refused=tables.refused.distinct())


def where(tables: Tables, captures: ir.Table) -> Tables:
    """What belongs to these captures."""
    keys = captures.select("capture_id", "rules_version")
    on = ["capture_id", "rules_version"]
    own = {name: getattr(tables, name).semi_join(keys, on) for name in OF_CAPTURES}
    return tables._replace(captures=captures, **own)


def _is_unique(table: ir.Table, key: ir.Column) -> bool:
    """Whether no two rows have the same key."""
    [counts] = rows(table.agg(rows=table.count(), keys=key.nunique()))
    return bool(counts["rows"] == counts["keys"])


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


def counted(rollups: ir.Table, span: Span) -> ir.Table:
    """What the counts of all requests have of a span of time and a service; intervals at its ends are
    counted whole."""
    if span.since is not None:
        rollups = rollups.filter(rollups.day >= span.since.date(), rollups.to_utc > span.since)
    if span.until is not None:
        rollups = rollups.filter(rollups.day <= span.until.date(), rollups.from_utc < span.until)
    if span.service is not None:
        rollups = rollups.filter(rollups.service == span.service)
    return rollups


class Asked(NamedTuple):
    """What questions are asked of: captures and findings with what each costs, kept by the engine,
    and the tables they are from."""

    tables: Tables
    captures: ir.Table
    findings: ir.Table
    engine: Engine
    uncaptured: ir.Table | None
    """Excess without a capture by service; None: nothing was counted."""
    own: ir.Table | None = None
    """Slow requests, each once, with their stratum; None: nothing was counted."""
    strata: ir.Table | None = None
    """What was counted in each stratum."""


# So much is kept of captures and findings; texts are read for the few that are shown. Engines copy
# what is kept, and texts cost the most: what a finding has in common with its capture stays there.
CAPTURES_KEPT = ("capture_id", "uri", "day", "service", "version", "environment", "region", "host", "pid", "started_utc", "captured_utc",
                 "first_slow_utc", "slow_requests", "excess_ns", "rules_version", "is_damaged")
FINDINGS_KEPT = ("capture_id", "rank", "service", "fingerprint", "cause", "confidence", "first_utc", "last_utc", "request", "slow_requests",
                 "excess_ns")
OF_CAPTURE = ("capture_id", "version", "environment", "region", "host", "captured_utc")


# So much of slow requests, of which there are millions.
OWN_KEPT = ("capture_id", "capture", "request_id", "duration_ns", "excess_ns", "is_open", *estimating.STRATUM)


def asked(tables: Tables, engine: Engine) -> Asked:
    """Calculates what all questions need once. Captures get a number, and `own_requests` and
    `seen_ns`: slow requests that no other capture has more of, and their excess; `own_ns` and
    `own_slow` are what these stand for (`estimating`). Findings, but for those without a name, get
    `weight_ns`, `seen_ns` and `weight_slow`: their part of it."""
    keep = engine.keep
    narrow = tables.captures.mutate(is_damaged=tables.captures.damage.length() > 0).select(*CAPTURES_KEPT)
    captures = keep("asked_numbered", narrow.mutate(capture=ibis.row_number().over(order_by="capture_id")))
    shared = keep("asked_shared", _shared(tables.requests, keep("asked_may_share", _may_share(captures))))
    joined = captures.select("capture_id", "capture", "slow_requests", "excess_ns").left_join(shared, "capture").drop("capture_right")
    is_alone = joined.shared_requests.isnull()
    amounts = joined.select("capture_id", "capture", all_slow=joined.slow_requests, all_ns=joined.excess_ns,
                            own_requests=is_alone.ifelse(joined.slow_requests, joined.shared_requests).cast("int64"),
                            own_seen_ns=is_alone.ifelse(joined.excess_ns, joined.shared_ns).cast("int64"))
    amounts, estimated = _estimated(tables, captures, amounts, keep)
    amounts = keep("asked_amounts", amounts)
    named = tables.findings.filter(tables.findings.cause != UNKNOWN).select(*FINDINGS_KEPT)
    priced = named.join(amounts.drop("own_requests"), "capture_id")
    part = priced.excess_ns.cast("float64") / priced.all_ns.nullif(0).cast("float64")
    part_slow = priced.slow_requests.cast("float64") / priced.all_slow.nullif(0).cast("float64")
    weights = {
        "weight_ns": (priced.own_ns.cast("float64") * part).fill_null(0.0),
        "seen_ns": (priced.own_seen_ns.cast("float64") * part).fill_null(0.0),
        "weight_slow": (priced.own_slow * part_slow).fill_null(0.0),
    }
    others = ("capture_id", "own_ns", "own_seen_ns", "own_slow", "all_ns", "all_slow", "slow_requests")
    findings = keep("asked_findings", priced.mutate(**weights).drop(*others))
    # A capture has fewer findings than that.
    if not _is_unique(findings, findings.capture * 1000 + findings["rank"]):
        findings = keep("asked_findings_once", findings.distinct())
    findings = findings.join(captures.select("capture", *OF_CAPTURE), "capture")
    own = amounts.select("capture", "own_requests", "own_ns", "own_slow", seen_ns=amounts.own_seen_ns)
    captures = captures.join(own, "capture").drop("started_utc", "pid", "first_slow_utc")
    return Asked(tables, engine.named("asked_captures", captures), engine.named("asked_findings_of_captures", findings), engine, *estimated)


def _estimated(
    tables: Tables, captures: ir.Table, amounts: ir.Table, keep: Callable[[str, ir.Table], ir.Table]
) -> tuple[ir.Table, tuple[ir.Table | None, ir.Table | None, ir.Table | None]]:
    """What each capture stands for, added to what it has; and what none stands for, slow requests,
    strata."""
    alone = amounts.mutate(own_ns=amounts.own_seen_ns, own_slow=amounts.own_requests.cast("float64"))
    [counted] = rows(tables.rollups.agg(rows=tables.rollups.count()))
    if not counted["rows"]:
        return alone, (None, None, None)
    strata = keep("asked_strata", estimating.strata(tables.rollups))
    own = keep("asked_own", estimating.own(tables.requests, captures, PROCESS).select(*OWN_KEPT))
    seen = keep("asked_seen", estimating.seen(own))
    joined = amounts.left_join(estimating.scaled(seen, strata), "capture").drop("capture_right")
    joined = joined.mutate(own_ns=joined.scaled_ns.fill_null(0.0), own_slow=joined.scaled_count.fill_null(0.0))
    uncaptured = keep("asked_uncaptured", estimating.uncaptured(seen, strata))
    return joined.drop("scaled_ns", "scaled_count"), (uncaptured, own, strata)


def counts(all_: Asked) -> ir.Table:
    """What all processes counted, by service, version and host."""
    return estimating.counts(all_.tables.rollups)


def _shared(requests: ir.Table, may: ir.Table) -> ir.Table:
    """For each capture that may share a slow request with another one of its process: how many of
    its slow requests no other capture has more of, and their excess."""
    # What captures know is not read from the requests, which are many.
    found = _of(requests, may).select("capture_id", "request_id", "duration_ns", "excess_ns").join(may, "capture_id")
    nth = ibis.row_number().over(
        group_by=[*PROCESS, "request_id"], order_by=[ibis.desc("duration_ns"), "captured_utc", "capture_id"])
    own = found.mutate(nth=nth).filter(lambda t: t.nth == 0)
    sums = own.group_by("capture").agg(requests=own.count(), excess_ns=own.excess_ns.sum())
    each = may.select("capture").left_join(sums, "capture").drop("capture_right")
    return each.select("capture", shared_requests=each.requests.fill_null(0), shared_ns=each.excess_ns.fill_null(0))


def _may_share(captures: ir.Table) -> ir.Table:
    """Captures of which a later one of the process has slow requests that began before the earlier
    one was made; both."""
    known = captures.select("capture_id", "capture", "captured_utc", "first_slow_utc", *PROCESS)
    order = ["captured_utc", "capture_id"]
    before = ibis.window(group_by=list(PROCESS), order_by=order, preceding=(None, 1))
    after = ibis.window(group_by=list(PROCESS), order_by=order, following=(1, None))
    earlier = known.captured_utc.max().over(before)
    later = known.first_slow_utc.min().over(after)
    is_shared = (known.first_slow_utc < earlier).fill_null(False) | (later <= known.captured_utc).fill_null(False)
    return known.mutate(is_shared=is_shared).filter(lambda t: t.is_shared).select("capture_id", "capture", "captured_utc", *PROCESS)


def of_captures(all_: Asked, captures: ir.Table) -> Asked:
    """What belongs to some of the captures."""
    return all_._replace(captures=captures, findings=all_.findings.semi_join(captures.select("capture"), "capture"))


def within(all_: Asked, span: Span) -> Asked:
    """What is of a span of time."""
    return of_captures(all_, chosen(all_.captures, span))


def totals(all_: Asked) -> ir.Table:
    """For each service and host: captures, slow requests, excess; one row each."""
    captures = all_.captures
    return captures.group_by("service", "host").agg(
        captures=captures.count(), slow_requests=captures.own_requests.sum().cast("int64"), excess_ns=captures.own_ns.sum().cast("float64"),
        seen_ns=captures.seen_ns.sum().cast("float64"),
        damaged=captures.is_damaged.cast("int64").sum().cast("int64"),
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
    found = all_.tables.refused.distinct()
    return found.agg(count=found.count())


def by_host(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """Excess of each group on each host: what intervals are made from."""
    keys = list(dict.fromkeys([*by, "host"]))
    return all_.findings.group_by(keys).agg(excess_ns=all_.findings.weight_ns.sum())


def groups(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The groups with what they touched."""
    found = all_.findings
    confirmed = (found.confidence == "confirmed").ifelse(found.capture, ibis.null("int64"))
    return found.group_by(list(by)).agg(
        excess_ns=found.weight_ns.sum(), slow=found.weight_slow.sum(), captures=found.capture.nunique(), hosts=found.host.nunique(),
        causes=found.fingerprint.nunique(), confirmed=confirmed.nunique(),
        first_utc=found.first_utc.min(), last_utc=found.last_utc.max())


def touched(all_: Asked, by: tuple[str, ...], column: str) -> ir.Table:
    """The values of a column that each group has (versions, requests), with their excess."""
    found = all_.findings
    keys = list(dict.fromkeys([*by, column]))
    return found.group_by(keys).agg(excess_ns=found.weight_ns.sum(), captures=found.capture.nunique(),
                                    hosts=found.host.nunique())


def ranked(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The groups with what each costs."""
    return all_.findings.group_by(list(by)).agg(excess_ns=all_.findings.weight_ns.sum())


def of_groups(all_: Asked, by: tuple[str, ...], groups: list[dict[str, Any]]) -> Asked:
    """What belongs to these groups, kept: a few of thousands. Of groups by several columns there may
    be others, with values of these."""
    found = all_.findings
    for column in by:
        values = {row[column] for row in groups}
        is_named = found[column].isin(sorted(values - {None}))
        found = found.filter(is_named | found[column].isnull() if None in values else is_named.fill_null(False))
    return all_._replace(findings=all_.engine.keep("asked_groups", found if groups else found.limit(0)))


def worst(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The finding of each group that cost most, whole, with the file of its capture."""
    found = all_.findings
    largest = found.group_by(list(by)).agg(largest_ns=found.seen_ns.max())
    # Few are equal to the largest: only these are put in order. A missing value is a group, too.
    equal = found.join(largest, [found[name].identical_to(largest[name]) for name in by], rname="{name}_of_group")
    equal = equal.filter(equal.seen_ns == equal.largest_ns)
    nth = ibis.row_number().over(group_by=list(by), order_by=[ibis.desc("excess_ns"), "capture_id", "rank"])
    return _whole(all_, equal.mutate(nth=nth).filter(lambda t: t.nth == 0))


def listed(all_: Asked, most: int) -> ir.Table:
    """The most expensive findings, whole, with the files of their captures."""
    order = [ibis.desc("seen_ns"), "capture_id", "rank"]
    return _whole(all_, all_.findings.order_by(order).limit(most)).order_by(order)


def buckets(all_: Asked, by: str) -> ir.Table:
    """Excess, captures and hosts of each cause in each day or hour."""
    timed = all_.findings.mutate(bucket_utc=all_.findings.captured_utc.truncate(by))
    return timed.group_by([*CAUSE, "bucket_utc"]).agg(
        excess_ns=timed.weight_ns.sum(), captures=timed.capture.nunique(), hosts=timed.host.nunique())


def cells(all_: Asked, most: int) -> ir.Table:
    """The most expensive cells: a cause on a host of a version in an hour, with the file of the
    capture that has most of it."""
    found = all_.findings
    hour = (found.captured_utc.epoch_seconds().cast("float64") / estimating.HOUR_SECONDS).floor().cast("int64")
    keys = [*CAUSE, "host", "version", "hour"]
    named = found.mutate(hour=hour).join(all_.captures.select("capture", "uri"), "capture")
    nth = ibis.row_number().over(group_by=keys, order_by=[ibis.desc("seen_ns"), "uri"])
    sums = named.mutate(nth=nth).group_by(keys)
    ranked = sums.agg(excess_ns=lambda t: t.weight_ns.sum(), uri=lambda t: t.uri.max(where=t.nth == 0))
    return ranked.order_by([ibis.desc("excess_ns"), *keys]).limit(most)


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
    priced = all_.engine.keep("asked_priced", found.select("capture_id", "rank", "seen_ns"))
    whole = _of(all_.tables.findings, priced).join(priced, ["capture_id", "rank"]).distinct(on=["capture_id", "rank"], keep="first")
    return whole.join(all_.captures.select("capture_id", "uri"), "capture_id")


# So many captures are named in a query: engines then read little of the others. More are joined.
NAMED_MAX = 1000


def _of(table: ir.Table, captures: ir.Table) -> ir.Table:
    """The rows of captures, and of others if these are many."""
    ids = captures.select("capture_id").distinct().limit(NAMED_MAX + 1).to_pyarrow()["capture_id"].to_pylist()
    return table.filter(table.capture_id.isin(sorted(ids))) if 0 < len(ids) <= NAMED_MAX else table


def rows(expression: Any) -> list[dict[str, Any]]:
    """The rows of a question."""
    found: list[dict[str, Any]] = expression.to_pyarrow().to_pylist()
    return found
