"""The questions, each written once as Ibis expressions, for DuckDB and Spark.

How it works: `Tables` holds an expression for each table; `chosen` says which captures are asked
about. `asked` calculates what all questions need, once; the engine keeps it. A question is a few more expressions, whose rows
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
from collections.abc import Callable, Mapping
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


class Chosen(NamedTuple):
    """Which captures are asked about, each once, by the newest rules."""

    tables: Tables
    """What belongs to captures may be there twice, and of captures that are not asked about."""
    keys: tuple[str, ...]
    """What a row has in common with its capture."""
    rules: list[str]
    """Versions of the rules by which the captures were judged, or more."""
    narrow: ir.Table | None
    """The captures with the columns that questions need, kept; None: not yet."""


def chosen(stored: Tables, engine: Engine) -> Chosen:
    """Each capture once, by the newest rules, and what belongs to it."""
    narrow = engine.keep("asked_narrow", _narrow(stored.captures))
    rules = engine.rules(narrow)
    if len(rules) <= 1 and _is_unique(narrow, narrow.capture_id):
        # Then the id names the capture: a constant costs less than a second column in every join.
        own = {name: table.filter(table.rules_version.isin(rules)) for name, table in _of_captures(stored)}
        return Chosen(stored._replace(**own), ("capture_id",), rules, narrow)
    captures = stored.captures
    age = captures.rules_version.cases(*((version, i) for i, version in enumerate(rules)), else_=-1)
    ordered = captures.mutate(rules_age=age)
    # A capture grows once, when its sources are added: the whole file is used.
    nth = ibis.row_number().over(group_by="capture_id", order_by=[ibis.desc("rules_age"), ibis.desc("bytes"), "uri"])
    captures = ordered.mutate(nth=nth).filter(lambda t: t.nth == 0).drop("nth", "rules_age")
    return Chosen(stored._replace(captures=captures), ("capture_id", "rules_version"), rules, None)


def once(found: Chosen) -> Tables:
    """Each row once."""
    keys = ["capture_id", "rules_version"]
    tables = _with_captures(found)
    return tables._replace(findings=tables.findings.distinct(on=[*keys, "rank"], keep="first"),
                           requests=tables.requests.distinct(on=[*keys, "request_id"], keep="first"),
                           parts=tables.parts.distinct(on=[*keys, "request_id", "number"], keep="first"),
                           rollups=tables.rollups.distinct(on=list(estimating.COUNTED), keep="first"),
                           refused=tables.refused.distinct())


def where(found: Chosen, captures: ir.Table, rollups: ir.Table) -> Chosen:
    """Only these of the captures, and these counts."""
    return found._replace(tables=found.tables._replace(captures=captures, rollups=rollups), narrow=None)


def _with_captures(found: Chosen) -> Tables:
    """The tables without what belongs to other captures."""
    keys = found.tables.captures.select(*found.keys)
    own = {name: table.semi_join(keys, list(found.keys)) for name, table in _of_captures(found.tables)}
    return found.tables._replace(**own)


def _of_captures(tables: Tables) -> list[tuple[str, ir.Table]]:
    """The tables with rows of a capture."""
    return [(name, getattr(tables, name)) for name in OF_CAPTURES]


def _narrow(captures: ir.Table) -> ir.Table:
    """Captures with the columns that questions need."""
    return captures.mutate(is_damaged=captures.damage.length() > 0).select(*CAPTURES_KEPT)


def _is_unique(table: ir.Table, key: ir.Column) -> bool:
    """Whether no two rows have the same key."""
    [counts] = rows(table.agg(rows=table.count(), keys=key.nunique()))
    return bool(counts["rows"] == counts["keys"])


def spanned(table: ir.Table, span: Span) -> ir.Table:
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

    chosen: Chosen
    captures: ir.Table
    findings: ir.Table
    engine: Engine
    uncaptured: ir.Table | None
    """Excess without a capture by service; None: nothing was counted."""
    counted: ir.Table | None = None
    """What processes counted, each row once, without histograms; None: nothing was counted."""
    own: ir.Table | None = None
    """Slow requests, each once, with their stratum; None: nothing was counted."""
    strata: ir.Table | None = None
    """What was counted in each stratum."""

    @property
    def tables(self) -> Tables:
        """The tables as they were chosen."""
        return self.chosen.tables


# So much is kept of captures and findings; texts are read for the few that are shown. Engines copy
# what is kept, and texts cost the most: what a finding has in common with its capture stays there.
CAPTURES_KEPT = ("capture_id", "day", "service", "version", "environment", "region", "host", "pid", "started_utc", "captured_utc",
                 "first_slow_utc", "slow_requests", "excess_ns", "rules_version", "is_damaged")
FINDINGS_KEPT = ("rank", "service", "fingerprint", "cause", "is_confirmed", "first_utc", "last_utc", "request")
OF_CAPTURE = ("capture_id", "rules_version", "day", "version", "environment", "region", "host", "captured_utc")
# So much of the findings of groups that are shown.
GROUPS_KEPT = ("capture", "capture_id", "rules_version", "day", "service", "version", "host", "rank", "fingerprint", "request", "is_confirmed",
               "first_utc", "last_utc", "excess_ns", "weight_ns", "weight_slow", "seen_ns")
# So much of a finding that is shown; others of its texts are not read.
SHOWN = ("excess_ns", "confidence", "request", "cause", "place_function", "place_file", "place_line", "culprit_function", "culprit_file",
         "culprit_line", "target", "summary", "advice")


# So much of slow requests, of which there are millions.
OWN_KEPT = ("capture_id", "capture", "request_id", "duration_ns", "excess_ns", "is_open", *estimating.STRATUM)


def asked(chosen_: Chosen, engine: Engine) -> Asked:
    """Calculates what all questions need once. Captures get a number, and `own_requests` and
    `seen_ns`: slow requests that no other capture has more of, and their excess; `own_ns` and
    `own_slow` are what these stand for (`estimating`). Findings, but for those without a name, get
    `weight_ns`, `seen_ns` and `weight_slow`: their part of it."""
    keep, tables = engine.keep, chosen_.tables
    narrow = chosen_.narrow if chosen_.narrow is not None else keep("asked_narrow", _narrow(tables.captures))
    captures = engine.numbered("asked_numbered", narrow, "capture", "capture_id")
    shared = keep("asked_shared", _shared(chosen_, keep("asked_may_share", _may_share(captures))))
    joined = captures.select(*chosen_.keys, "capture", "slow_requests", "excess_ns").left_join(shared, "capture").drop("capture_right")
    is_alone = joined.shared_requests.isnull()
    amounts = joined.select(*chosen_.keys, "capture", all_slow=joined.slow_requests, all_ns=joined.excess_ns,
                            own_requests=is_alone.ifelse(joined.slow_requests, joined.shared_requests).cast("int64"),
                            own_seen_ns=is_alone.ifelse(joined.excess_ns, joined.shared_ns).cast("int64"))
    amounts, estimated = _estimated(chosen_, captures, amounts, keep)
    amounts = keep("asked_amounts", amounts)
    if engine.is_once("findings"):
        # A row has its capture's own columns; an engine reads those that a question needs.
        findings = _priced(chosen_, amounts, OF_CAPTURE)
    else:
        findings = keep("asked_findings", _priced(chosen_, amounts))
        # A capture has fewer findings than that.
        if not _is_unique(findings, findings.capture * 1000 + findings["rank"]):
            findings = keep("asked_findings_once", findings.distinct())
        findings = findings.join(captures.select("capture", *OF_CAPTURE), "capture")
    own = amounts.select("capture", "own_requests", "own_ns", "own_slow", seen_ns=amounts.own_seen_ns)
    captures = captures.join(own, "capture").drop("started_utc", "pid", "first_slow_utc")
    return Asked(chosen_, engine.named("asked_captures", captures), engine.named("asked_findings_of_captures", findings), engine, *estimated)


def _priced(chosen_: Chosen, amounts: ir.Table, more: tuple[str, ...] = ()) -> ir.Table:
    """Findings with a name, what each costs, and more of their columns."""
    found = chosen_.tables.findings
    found = found.filter(found.cause != UNKNOWN).mutate(is_confirmed=(found.confidence == "confirmed").fill_null(False))
    columns = dict.fromkeys([*chosen_.keys, *FINDINGS_KEPT, "slow_requests", "excess_ns", *more])
    priced = found.select(*columns).join(amounts.drop("own_requests"), list(chosen_.keys))
    part = priced.excess_ns.cast("float64") / priced.all_ns.nullif(0).cast("float64")
    part_slow = priced.slow_requests.cast("float64") / priced.all_slow.nullif(0).cast("float64")
    weights = {
        "weight_ns": (priced.own_ns.cast("float64") * part).fill_null(0.0),
        "seen_ns": (priced.own_seen_ns.cast("float64") * part).fill_null(0.0),
        "weight_slow": (priced.own_slow * part_slow).fill_null(0.0),
    }
    return priced.mutate(**weights).select("capture", *FINDINGS_KEPT, "excess_ns", *weights, *more)


def _estimated(
    chosen_: Chosen, captures: ir.Table, amounts: ir.Table, keep: Callable[[str, ir.Table], ir.Table]
) -> tuple[ir.Table, tuple[ir.Table | None, ...]]:
    """What each capture stands for, added to what it has; and what none stands for, counts, slow
    requests, strata."""
    alone = amounts.mutate(own_ns=amounts.own_seen_ns, own_slow=amounts.own_requests.cast("float64"))
    [counted] = rows(chosen_.tables.rollups.agg(rows=chosen_.tables.rollups.count()))
    if not counted["rows"]:
        return alone, (None, None, None, None)
    rollups = chosen_.tables.rollups
    once_ = keep("asked_counted", rollups.drop("bucket", "bucket_count").distinct(on=list(estimating.COUNTED), keep="first"))
    strata = keep("asked_strata", estimating.strata(once_))
    own = keep("asked_own", estimating.own(chosen_.tables.requests, captures, chosen_.keys, PROCESS).select(*OWN_KEPT))
    seen = keep("asked_seen", estimating.seen(own))
    joined = amounts.left_join(estimating.scaled(seen, strata), "capture").drop("capture_right")
    joined = joined.mutate(own_ns=joined.scaled_ns.fill_null(0.0), own_slow=joined.scaled_count.fill_null(0.0))
    uncaptured = keep("asked_uncaptured", estimating.uncaptured(seen, strata))
    return joined.drop("scaled_ns", "scaled_count"), (uncaptured, once_, own, strata)


def counts(all_: Asked) -> ir.Table:
    """What all processes counted, by service, version and host."""
    return estimating.counts(all_.tables.rollups if all_.counted is None else all_.counted)


def _shared(chosen_: Chosen, may: ir.Table) -> ir.Table:
    """For each capture that may share a slow request with another one of its process: how many of
    its slow requests no other capture has more of, and their excess."""
    # What captures know is not read from the requests, which are many.
    keys = list(chosen_.keys)
    found = _of(chosen_.tables.requests, _named(may)).select(*keys, "request_id", "duration_ns", "excess_ns").join(may, keys)
    nth = ibis.row_number().over(
        group_by=[*PROCESS, "request_id"], order_by=[ibis.desc("duration_ns"), "captured_utc", "capture_id"])
    own = found.mutate(nth=nth).filter(lambda t: t.nth == 0)
    sums = own.group_by("capture").agg(requests=own.count(), excess_ns=own.excess_ns.sum())
    each = may.select("capture").left_join(sums, "capture").drop("capture_right")
    return each.select("capture", shared_requests=each.requests.fill_null(0), shared_ns=each.excess_ns.fill_null(0))


def _may_share(captures: ir.Table) -> ir.Table:
    """Captures of which a later one of the process has slow requests that began before the earlier
    one was made; both. Those of one instant are in any order: if they share a request, both are
    here in each. One that is here and shares nothing keeps all of its own."""
    # Rows are put in order by one number instead of the texts that name a process.
    process = captures.group_by(list(PROCESS)).agg(process=captures.capture.min())
    of_process = captures.left_join(process, list(PROCESS))
    known = of_process.select("capture", "process", "captured_utc", "first_slow_utc")
    after = ibis.window(group_by="process", order_by="captured_utc", following=(1, None))
    earlier = known.captured_utc.lag().over(ibis.window(group_by="process", order_by="captured_utc"))
    later = known.first_slow_utc.min().over(after)
    is_shared = (known.first_slow_utc <= earlier).fill_null(False) | (later <= known.captured_utc).fill_null(False)
    shared = known.mutate(is_shared=is_shared).filter(lambda t: t.is_shared)
    return captures.semi_join(shared, "capture").select("capture_id", "rules_version", "capture", "day", "captured_utc", *PROCESS)


def observed(all_: Asked, values: Mapping[str, str], span: Span) -> ir.Table:
    """Hosts of each service that counted requests with these values of columns, in a span of time;
    when, and how many requests."""
    found = counted(all_.tables.rollups if all_.counted is None else all_.counted, span)
    for column, value in values.items():
        found = found.filter(found[column] == value)
    return found.group_by("service", "host").agg(
        requests=found.total.sum().cast("int64"), first_utc=found.from_utc.min(), last_utc=found.to_utc.max())


def parts(all_: Asked) -> ir.Table:
    """Parts of slow requests, by the rules that captures are judged by; also of captures that are
    not asked about."""
    own = all_.tables.parts
    keys = list(all_.chosen.keys)
    return own if len(keys) == 1 else own.semi_join(all_.tables.captures.select(*keys), keys)


def of_captures(all_: Asked, captures: ir.Table) -> Asked:
    """What belongs to some of the captures."""
    return all_._replace(captures=captures, findings=all_.findings.semi_join(captures.select("capture"), "capture"))


def within(all_: Asked, span: Span) -> Asked:
    """What is of a span of time."""
    return of_captures(all_, spanned(all_.captures, span))


def per_host(all_: Asked) -> ir.Table:
    """What each version of a service captured on each host: all that `totals` and `versions` need, of
    fewer rows than there are captures."""
    captures = all_.captures
    own_ns = captures.own_ns.sum().cast(captures.own_ns.type())
    return captures.group_by("service", "version", "host").agg(
        captures=captures.count(), slow_requests=captures.own_requests.sum().cast("int64"), own_ns=own_ns,
        seen_ns=captures.seen_ns.sum().cast("int64"), damaged=captures.is_damaged.cast("int64").sum().cast("int64"),
        first_utc=captures.captured_utc.min(), last_utc=captures.captured_utc.max())


def totals(hosts: ir.Table) -> ir.Table:
    """For each service and host (of `per_host`): captures, slow requests, excess; one row each."""
    return hosts.group_by("service", "host").agg(
        captures=hosts.captures.sum().cast("int64"), slow_requests=hosts.slow_requests.sum().cast("int64"),
        excess_ns=hosts.own_ns.sum().cast("float64"), seen_ns=hosts.seen_ns.sum().cast("float64"),
        damaged=hosts.damaged.sum().cast("int64"), first_utc=hosts.first_utc.min(), last_utc=hosts.last_utc.max())


def versions(hosts: ir.Table) -> ir.Table:
    """Captures of each version of each service, of `per_host`."""
    return hosts.group_by("service", "version").agg(
        captures=hosts.captures.sum().cast("int64"), hosts=hosts.host.nunique(), first_utc=hosts.first_utc.min(),
        last_utc=hosts.last_utc.max())


def rules(all_: Asked, captures: int) -> list[str]:
    """Versions of the rules that judged the captures, of which there are so many."""
    known = all_.chosen.rules
    if len(known) > 1:
        return sorted(row["rules_version"] for row in rows(all_.captures.select("rules_version").distinct()))
    return known if captures else []


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
    confirmed = found.is_confirmed.ifelse(found.capture, ibis.null("int64"))
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
        # As it is, an engine reads only what may fulfil it: without a function around.
        found = found.filter(is_named | found[column].isnull() if None in values else is_named)
    found = found.select(*dict.fromkeys([*by, *GROUPS_KEPT]))
    return all_._replace(findings=all_.engine.keep("asked_groups", found if groups else found.limit(0)))


def worst(all_: Asked, by: tuple[str, ...]) -> ir.Table:
    """The finding of each group that cost most, as it is shown, with the file of its capture."""
    found = all_.findings
    largest = found.group_by(list(by)).agg(largest_ns=found.seen_ns.max())
    # Few are equal to the largest: only these are put in order. A missing value is a group, too.
    equal = found.join(largest, [found[name].identical_to(largest[name]) for name in by], rname="{name}_of_group")
    equal = equal.filter(equal.seen_ns == equal.largest_ns)
    nth = ibis.row_number().over(group_by=list(by), order_by=[ibis.desc("excess_ns"), "capture_id", "rank"])
    return _shown(all_, equal.mutate(nth=nth).filter(lambda t: t.nth == 0), by)


def listed(all_: Asked, most: int) -> ir.Table:
    """The most expensive findings, as they are shown, with the files of their captures."""
    order = [ibis.desc("seen_ns"), "capture_id", "rank"]
    found = all_.findings.order_by(order).limit(most)
    return _shown(all_, found, ("captured_utc", "host", "version")).order_by(order)


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
    keys_of_capture = list(all_.chosen.keys)
    uris = all_.captures.select("capture", *keys_of_capture).join(all_.tables.captures.select(*keys_of_capture, "uri"), keys_of_capture)
    named = found.mutate(hour=hour).join(uris.select("capture", "uri"), "capture")
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


def _shown(all_: Asked, found: ir.Table, more: tuple[str, ...]) -> ir.Table:
    """Findings with the columns of `SHOWN` and these, and the file of their capture."""
    priced = all_.engine.keep("asked_priced", found.select("capture_id", "rules_version", "day", "service", "rank", "seen_ns"))
    keys, named = list(all_.chosen.keys), _named(priced)
    uris = _of(all_.tables.captures, named).select(*keys, "uri")
    columns = dict.fromkeys([*keys, "capture_id", "rank", *SHOWN, *more])
    shown = _of(all_.tables.findings, named).select(*columns).join(priced.select(*keys, "rank", "seen_ns"), [*keys, "rank"])
    return shown.join(uris, keys).distinct(on=["capture_id", "rank"], keep="first")


# So many captures are named in a query, with their folders: engines then read little of the others.
# To join more costs less: 0.22 s of CPU instead of 0.35 s for 708 captures of 350,000.
NAMED_MAX = 64


def _named(captures: ir.Table) -> list[dict[str, Any]]:
    """Id and folder of captures, one more than can be named at most."""
    return rows(captures.select("capture_id", "day", "service").distinct().limit(NAMED_MAX + 1))


def _of(table: ir.Table, named: list[dict[str, Any]]) -> ir.Table:
    """The rows of captures, and of others if these are many."""
    if not 0 < len(named) <= NAMED_MAX:
        return table
    table = table.filter(table.capture_id.isin(sorted({row["capture_id"] for row in named})))
    # As one text: engines try a condition with each folder's name, and pairs of them take long.
    folders = sorted({f"{row['day']}/{row['service']}" for row in named})
    return table.filter((table.day.cast("string") + "/" + table.service).isin(folders))


def rows(expression: Any) -> list[dict[str, Any]]:
    """The rows of a question."""
    found: list[dict[str, Any]] = expression.to_pyarrow().to_pylist()
    return found
