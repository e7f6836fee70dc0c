"""From captured excess to all excess: each stratum's exact sum, divided as in its captures.

How it works: processes count all of their requests (`rollups`). A stratum is a service, version,
request name and hour. What its captured slow requests took beyond typical is scaled so that it adds
up to what all of its slow requests took. A capture then weighs as much as the requests it stands
for; a stratum without a capture stays apart, as *not captured*.

What it promises: sums are exact where there are counts; only the division among causes is sampled.
A stratum without counts (an older recorder, a killed process) keeps what was captured. This holds as
far as the captured requests of a stratum are like its others: the first of a burst are captured
more often.

What is missing on purpose: pooling of strata. An hour with one captured request takes that
request's causes; intervals are over hosts and show what this costs.
"""

# Ibis has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

import datetime
from typing import Any

import ibis
import ibis.expr.types as ir

# What identifies a row of the counts of all requests.
COUNTED = ("service", "host", "run", "from_utc", "number", "request")
# Excess is exact for each of these.
STRATUM = ("service", "version", "request", "hour")
HOUR_SECONDS = 3600
SUMS = ("total", "slow", "failed", "excess_ns")


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def unix_micros(time: datetime.datetime) -> int:
    """Microseconds since 1970, by Spark's function; DuckDB has a macro of that name. Seconds would
    be rounded in one engine and cut off in the other."""
    raise NotImplementedError(time)


def strata(once: ir.Table) -> ir.Table:
    """What was counted in each stratum, from counts that are there once. A missing version or name
    is an empty text, which joins."""
    keyed = once.mutate(version=once.version.fill_null(""), request=once.request.fill_null(""), hour=_hour(once.hour_utc.epoch_seconds()))
    return keyed.group_by(list(STRATUM)).agg(**{name: keyed[name].sum().cast("int64") for name in SUMS})


def own(requests: ir.Table, captures: ir.Table, keys: tuple[str, ...], process: tuple[str, ...]) -> ir.Table:
    """Slow requests with their stratum; a request that is in several captures is taken from the one
    that has most of it. `keys`: what a request has in common with its capture."""
    known = captures.select("capture_id", "rules_version", "capture", "captured_utc", "version", *process)
    found = requests.select(*keys, "request_id", "begin_utc", "duration_ns", "excess_ns", "is_open", request="name").join(known, list(keys))
    nth = ibis.row_number().over(
        group_by=[*process, "request_id"], order_by=[ibis.desc("duration_ns"), "captured_utc", "capture_id"])
    once = found.mutate(nth=nth).filter(lambda t: t.nth == 0)
    # Requests are counted in the hour in which they end.
    end_us = unix_micros(once.begin_utc).cast("float64") + once.duration_ns.cast("float64") / 1e3
    return once.mutate(version=once.version.fill_null(""), request=once.request.fill_null(""), hour=_hour(end_us / 1e6))


def seen(own_: ir.Table) -> ir.Table:
    """Slow requests and their excess by capture and stratum."""
    return own_.group_by(["capture", *STRATUM]).agg(count=own_.count(), excess_ns=own_.excess_ns.sum().cast("int64"))


def scaled(found: ir.Table, all_: ir.Table) -> ir.Table:
    """For each capture the excess and the slow requests that it stands for."""
    whole = found.group_by(list(STRATUM)).agg(seen_count=found["count"].sum(), seen_ns=found.excess_ns.sum())
    counted = all_.select(*STRATUM, all_slow=all_.slow, all_ns=all_.excess_ns)
    joined = whole.left_join(counted, list(STRATUM))
    factors = joined.select(*STRATUM, by_ns=_factor(joined.all_ns, joined.seen_ns), by_count=_factor(joined.all_slow, joined.seen_count))
    each = found.join(factors, list(STRATUM))
    each = each.mutate(scaled_ns=each.excess_ns * each.by_ns, scaled_count=each["count"] * each.by_count)
    return each.group_by("capture").agg(scaled_ns=each.scaled_ns.sum(), scaled_count=each.scaled_count.sum())


def uncaptured(found: ir.Table, all_: ir.Table) -> ir.Table:
    """What strata without a captured slow request have, by service."""
    rest = all_.anti_join(found.filter(found.excess_ns > 0).select(*STRATUM), list(STRATUM))
    return rest.group_by("service").agg(excess_ns=rest.excess_ns.sum().cast("float64"), slow=rest.slow.sum().cast("int64"))


def counts(once: ir.Table) -> ir.Table:
    """What each host of a service counted of each version, from counts that are there once; how many
    of its processes there are, and how many have not written their last counts."""
    runs = once.group_by(["service", "version", "host", "run"]).agg(
        **{name: once[name].sum().cast("int64") for name in (*SUMS, "captured", "suppressed", "over_quota")},
        has_ended=once.is_last.cast("int64").max(), first_utc=once.from_utc.min(), last_utc=once.to_utc.max())
    return runs.group_by(["service", "version", "host"]).agg(
        **{name: runs[name].sum().cast("int64") for name in (*SUMS, "captured", "suppressed", "over_quota")},
        processes=runs.count(), open=(1 - runs.has_ended).sum().cast("int64"), first_utc=runs.first_utc.min(), last_utc=runs.last_utc.max())


def _hour(seconds: Any) -> Any:
    return (seconds.cast("float64") / HOUR_SECONDS).floor().cast("int64")


def _factor(all_: Any, seen_: Any) -> Any:
    """All over seen; 1 where nothing was counted."""
    return (all_.nullif(0).cast("float64") / seen_.nullif(0).cast("float64")).fill_null(1.0)
