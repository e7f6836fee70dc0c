"""Rollouts for tests: incidents drawn for hosts of which some get a new version, asked about again and
again.

How it works: time goes in intervals of ten minutes. Each host has its own rate for each cause; a
burst is one incident, or several in a row. `found` asks as `fleet diff --watch` does, with what was
known at that time.

What it promises: the same seed gives the same incidents; what is known at a time is not changed by
what comes later.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from dashcam._fleet.ask import comparing, differing, questions

EPOCH = datetime.datetime(1970, 1, 1)
# 2025-11-24.
BEGIN = 1_763_942_400 // questions.INCIDENT_SECONDS
HOUR = 6
DAY = 24 * HOUR
GROWN = "cause-0"


class Drawn(NamedTuple):
    """Whether a cause was on a host in an interval; the first `changed` hosts got the new version at
    `at`. `is_counted`: hosts counted their requests, so that those without an incident are known."""

    incidents: npt.NDArray[np.bool_]
    at: int
    changed: int
    is_counted: bool


def drawn(
    seed: int, *, hosts: int = 60, changed: int = 20, causes: int = 4, a_day: float = 6.0, shape: float = 4.0, burst: float = 1.0,
    grown: float = 1.0, is_counted: bool = False,
) -> Drawn:
    """Two days before the new version, and 25 hours after it. `a_day`: incidents of a host and cause;
    the first cause has `grown` times as many with the new version. `shape`: of the distribution of
    rates over hosts; less is more unequal. `burst`: incidents in a row, on average."""
    chance = np.random.default_rng(seed)
    at, length = 2 * DAY, 2 * DAY + 25 * HOUR
    rates = chance.gamma(shape, 1 / shape, (causes, hosts))[:, :, None] * (a_day / DAY / burst) * np.ones(length)
    rates[0, :changed, at:] *= grown
    incidents = chance.random((causes, hosts, length)) < rates
    for cause, host, begin in zip(*np.nonzero(incidents)):
        incidents[cause, host, begin:begin + chance.geometric(1 / burst)] = True
    return Drawn(incidents, at, changed, is_counted)


def found(world: Drawn, asks: int, every: int) -> tuple[int, list[str]] | None:
    """After how many intervals something is worse or new, and what; None: nothing in all asks."""
    judged = 0
    for ask in range(1, asks + 1):
        both = _known(world, world.at + ask * every)
        number, until = differing.until_judged(both) if both.hosts_after else (0, both)
        # Between two judgements the answer stays as it is.
        if number == judged:
            continue
        judged = number
        rows = differing.of_service("billy", comparing.chosen(until.hosts_before, until.hosts_after, None, None), until, number)
        differing.judge(rows)
        names = [row["fingerprint"] for row in rows if row["kind"] in ("worse", "new")]
        if names:
            return ask * every, names
    return None


def _known(world: Drawn, now: int) -> differing.Sides:
    """Both sides as they were known then."""
    is_changed = np.arange(world.incidents.shape[1]) < world.changed
    own, others, after = (_Part(is_changed, 0, world.at), _Part(~is_changed, 0, now), _Part(is_changed, world.at, now))
    tables = [_table(world, part) for part in (own, others, after)]
    hosts = [_hosts(world, part, table) for part, table in zip((own, others, after), tables)]
    return differing.Sides(hosts[0] | hosts[1], hosts[2], pa.concat_tables(tables[:2]), tables[2])


class _Part(NamedTuple):
    hosts: npt.NDArray[np.bool_]
    begin: int
    end: int


def _table(world: Drawn, part: _Part) -> pa.Table:
    causes, hosts, times = np.nonzero(world.incidents[:, part.hosts, part.begin:part.end])
    names = np.nonzero(part.hosts)[0][hosts]
    return pa.table({
        "fingerprint": pa.array([f"cause-{cause}" for cause in causes], pa.string()), "host": pa.array([f"host-{name:03}" for name in names], pa.string()),
        "interval": pa.array(times + part.begin + BEGIN, pa.int64()), "excess_ns": pa.array(np.full(len(causes), 1e9)),
    })


def _hosts(world: Drawn, part: _Part, table: pa.Table) -> dict[str, dict[str, Any]]:
    """Hosts with when they were seen: by their captures, in the middle of an interval; by counts."""
    found: dict[str, dict[str, Any]] = {}
    for host, interval in zip(table["host"].to_pylist(), table["interval"].to_pylist()):
        seen = _utc(interval) + datetime.timedelta(minutes=5)
        row = found.setdefault(host, {"captures": 0, "first_utc": seen, "last_utc": seen})
        row |= {"captures": row["captures"] + 1, "first_utc": min(row["first_utc"], seen), "last_utc": max(row["last_utc"], seen)}
    if world.is_counted:
        for host in np.nonzero(part.hosts)[0]:
            row = found.setdefault(f"host-{host:03}", {"captures": 0})
            row |= {"requests": 1000, "first_utc": _utc(BEGIN + part.begin), "last_utc": _utc(BEGIN + part.end)}
    return found


def _utc(interval: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=interval * questions.INCIDENT_SECONDS)
