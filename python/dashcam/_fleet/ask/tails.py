"""p99.9 of a service, and what it would be without one cause.

How it works: processes count all of their requests in histograms; the sum of these over hosts is
exact. A captured slow request stands for the slow ones of its stratum (`estimating`). Without a
cause it would have been shorter by its parts with this cause: what it stands for moves from its
bucket to that of the shorter time. The percentile is read from both histograms.

What it promises: never a percentile over captures, nor a mean of percentiles. None where nothing
was counted, or fewer requests than one in a thousand of which can be seen. A bucket gives no more
than it has. Both engines give the same numbers: buckets come from whole powers of two.

What is missing on purpose: requests that were still open when their capture was made, since how
long they took is not known; and an interval: it is a comparison of two numbers, not a measurement
of the second.
"""

# Ibis has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt

from dashcam._fleet.ask import estimating, questions
from dashcam._fleet.rows.counting import BUCKETS

# One request in so many is slower than the percentile.
ONE_IN = 1000
# Buckets of a histogram: 16 for each doubling from 2^13 ns on (docs/rollups.md).
STEPS, FIRST_BITS = 16, 9
Floats = npt.NDArray[np.float64]


class Tail(NamedTuple):
    """The 99.9th percentile of a service's requests."""

    p999_ns: float
    without_ns: float
    """Without the cause."""


class Move(NamedTuple):
    """Requests that would be in a shorter bucket."""

    bucket: int
    shorter: int
    requests: float


@ibis.udf.scalar.builtin(name="bin")  # type: ignore[untyped-decorator]
def binary(number: int) -> str:
    """The digits of a number in base two."""
    raise NotImplementedError(number)


def tails(all_: questions.Asked, causes: list[dict[str, Any]]) -> dict[tuple[str, str], Tail]:
    """For each of the causes, by service and fingerprint. Costs a scan of `parts` and of the
    histograms."""
    if all_.own is None or all_.strata is None or not causes:
        return {}
    services = sorted({row["service"] for row in causes})
    counted = {name: np.zeros(BUCKETS) for name in services}
    for row in questions.rows(histograms(all_.tables.rollups, services)):
        counted[row["service"]][row["bucket"]] += row["count"]
    moved: dict[tuple[str, str], list[Move]] = {}
    names = sorted({row["fingerprint"] for row in causes})
    for row in questions.rows(moves(questions.parts(all_), all_.own, all_.strata, names)):
        moved.setdefault((row["service"], row["fingerprint"]), []).append(Move(row["bucket"], row["shorter"], row["count"]))
    found = {}
    for key in ((row["service"], row["fingerprint"]) for row in causes):
        counts = counted[key[0]]
        now = percentile(counts)
        if now is not None:
            without = percentile(after(counts, moved.get(key, [])))
            found[key] = Tail(now, now if without is None else without)
    return found


def histograms(rollups: ir.Table, services: list[str]) -> ir.Table:
    """Requests of each service in each bucket."""
    once = rollups.distinct(on=list(estimating.COUNTED), keep="first").filter(lambda t: t.service.isin(services))
    each = once.select("service", pair=once.bucket.zip(once.bucket_count).unnest())
    pairs = each.select("service", bucket=each.pair["f1"].cast("int64"), count=each.pair["f2"])
    return pairs.group_by(["service", "bucket"]).agg(count=pairs["count"].sum().cast("int64"))


def moves(parts: ir.Table, own: ir.Table, strata: ir.Table, fingerprints: list[str]) -> ir.Table:
    """Requests that would move from a bucket to a shorter one without a cause."""
    divided = parts.filter(parts.number == 1).select("capture_id", "request_id")
    known = own.filter(~own.is_open.fill_null(True)).semi_join(divided, ["capture_id", "request_id"])
    stratum = list(estimating.STRATUM)
    whole = known.group_by(stratum).agg(known=known.count()).join(strata.select(*stratum, "slow"), stratum)
    factors = whole.select(*stratum, weight=whole.slow.cast("float64") / whole.known.cast("float64"))
    named = parts.filter(parts.fingerprint.isin(fingerprints)).distinct(on=["capture_id", "request_id", "number"], keep="first")
    of_cause = named.group_by(["capture_id", "request_id", "fingerprint"]).agg(part_ns=named.duration_ns.sum().cast("int64"))
    weighed = known.select("capture_id", "request_id", "duration_ns", *stratum).join(factors, stratum)
    joined = weighed.join(of_cause, ["capture_id", "request_id"])
    rest_ns = ibis.greatest(joined.duration_ns - joined.part_ns, 0)
    placed = joined.mutate(bucket=_bucket(joined.duration_ns), shorter=_bucket(rest_ns))
    keys = ["service", "fingerprint", "bucket", "shorter"]
    return placed.group_by(keys).agg(count=placed.weight.sum())


def after(counts: Floats, moved: list[Move]) -> Floats:
    """The histogram with these requests moved."""
    leave = np.zeros(BUCKETS)
    for move in moved:
        leave[move.bucket] += move.requests
    part = np.minimum(1.0, counts / np.maximum(leave, 1e-9))
    found: Floats = counts - leave * part
    for move in moved:
        found[move.shorter] += move.requests * part[move.bucket]
    return found


def percentile(counts: Floats) -> float | None:
    """The time that one request in a thousand exceeds, evenly divided within its bucket."""
    total = counts.sum()
    if total < ONE_IN:
        return None
    rank = total / ONE_IN
    longer = np.cumsum(counts[::-1])[::-1]
    bucket = int(np.nonzero(longer >= rank)[0][-1])
    above = longer[bucket] - counts[bucket]
    low, high = begin_ns(bucket), begin_ns(min(bucket + 1, BUCKETS - 1))
    return float(high - (high - low) * (rank - above) / counts[bucket])


def begin_ns(bucket: int) -> float:
    """The shortest time of a bucket."""
    if bucket == 0:
        return 0.0
    step = bucket - 1
    return float((STEPS + step % STEPS) * 2.0 ** (FIRST_BITS + step // STEPS))


def bucket_of(ns: int) -> int:
    """The bucket of a time, as the recorder chooses it."""
    bits = ns.bit_length()
    if bits <= FIRST_BITS + 4:
        return 0
    return min(BUCKETS - 1, (bits - 5 - FIRST_BITS) * STEPS + (ns >> (bits - 5)) - STEPS + 1)


def _bucket(ns: Any) -> Any:
    """`bucket_of` in the engine."""
    bits = binary(ns).length()
    # Division by a power of two, and the power itself, are exact.
    leading = (ns.cast("float64") / ibis.literal(2.0).pow(bits - 5)).floor().cast("int64")
    bucket = (bits.cast("int64") - 5 - FIRST_BITS) * STEPS + leading - STEPS + 1
    return ibis.greatest(0, ibis.least(BUCKETS - 1, bucket))
