"""Intervals and tests over hosts. Pure functions of numbers; NumPy.

How it works: hosts are the unit, never captures or requests, since spikes come in bursts on one
host. `shares` takes a cause's share as a ratio of two sums over hosts and its error from how much
hosts deviate from that ratio (linearisation), on a scale without ends (log odds). `compare` permutes
hosts between two sides and counts incidents.

What it promises: the same rows give the same numbers on any machine and engine; the permutations
come from a seed made of a name. In simulations of 8 to 200 hosts 94 to 98 of 100 intervals of 95 %
held the truth; those of a bootstrap over hosts, 90 to 94. A test against many causes keeps the
false discovery rate (Benjamini and Hochberg).

A question that is asked again and again, while a release rolls out, would find something by chance at
last. `judgements` says how many times it could have been judged until then; the chance that is
allowed is divided among all of these (`part_of_judgement`), so that it holds whatever the bursts and
however hosts differ. In simulations a Bayes factor of the counts (Lindon and Malek), weighted by how
hosts deviate, raised false alarms in up to 31 of 100 rollouts where a burst is three incidents: early
on there is no way to know how they cluster.

What is missing on purpose: tests on rates of requests. Slow ones come in bursts on one host.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Fewer hosts have no interval: their deviations say little of other hosts.
HOSTS_MIN = 5
# Permutations; the smallest p-value, 1 in 5,000, must pass a test among a hundred causes.
PERMUTATIONS = 4999
# Of what is reported as different so much may be chance.
FALSE_DISCOVERIES = 0.05
# More of them where less chance is allowed, for causes that so few of the first were as bad as; in
# all at most so many sides of hosts are dealt, which bounds the time.
PERMUTATIONS_MAX = 99_999
RARE_MAX = 4
DEALT_MAX = 20_000_000
# A rollout is judged when it has run for so long, and then each time it has run longer by so much.
FIRST_JUDGED_S = 1200.0
JUDGED_RATIO = 1.5
# Rows of permutations in memory at once.
CHUNK = 256
Floats = npt.NDArray[np.float64]


def seed(text: str) -> int:
    """64 bits from a text, the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "little")


def shares(excess: Floats, totals: Floats) -> list[tuple[float, float] | None]:
    """A 95 % interval for each group's share of all excess. `excess` is hosts x groups, `totals` the
    excess of each host. None: too few hosts, or no excess."""
    hosts, groups = excess.shape
    whole = totals.sum()
    if hosts < HOSTS_MIN or whole <= 0:
        return [None] * groups
    share = excess.sum(axis=0) / whole
    deviations = (excess - share[None, :] * totals[:, None]) / whole
    errors = np.sqrt(hosts / (hosts - 1) * (deviations**2).sum(axis=0))
    return [_interval(float(one), float(error), hosts - 1) for one, error in zip(share, errors)]


def _interval(share: float, error: float, freedom: int) -> tuple[float, float]:
    if not 0 < share < 1:
        return share, share
    middle = math.log(share / (1 - share))
    reach = student(freedom) * error / (share * (1 - share))
    # Past 700 the exponential has no number.
    low, high = (1 / (1 + math.exp(min(700.0, -middle + side * reach))) for side in (1, -1))
    return low, high


def student(freedom: int) -> float:
    """The 97.5th percentile of Student's t, by the expansion of Cornish and Fisher."""
    z = 1.959963985
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))


class Unit(NamedTuple):
    """A host on one side."""

    host: str
    is_after: bool


class Difference(NamedTuple):
    """Incidents of a cause on both sides."""

    ratio: float
    """Incidents of a host after over before; infinite for a cause that was not there before."""
    p_worse: float
    """Chance of at least this ratio if the side did not matter."""
    p_better: float


def compare(units: list[Unit], incidents: Floats, name: str, *, finely: bool = False) -> list[Difference]:
    """Compares two sides for each cause; `incidents` is units x causes. All units were observed for
    the same time, or the two of each host were: only then may their sides be exchanged. `finely`:
    small chances differ."""
    after = np.array([unit.is_after for unit in units])
    generator = np.random.Generator(np.random.PCG64(seed(name)))
    more, less = _as_extreme(units, after, incidents, generator, PERMUTATIONS)
    more, less = (more + 1) / (PERMUTATIONS + 1), (less + 1) / (PERMUTATIONS + 1)
    count = min(PERMUTATIONS_MAX, DEALT_MAX // max(1, len(units)))
    rare = np.nonzero(np.minimum(more, less) * (PERMUTATIONS + 1) <= RARE_MAX + 1)[0]
    if finely and len(rare) and count > PERMUTATIONS:
        rarer = _as_extreme(units, after, incidents[:, rare], generator, count)
        more[rare], less[rare] = ((times + 1) / (count + 1) for times in rarer)
    means = zip(incidents[after].mean(axis=0).tolist(), incidents[~after].mean(axis=0).tolist())
    return [Difference(_ratio(now, once), *chance) for (now, once), chance in zip(means, zip(more.tolist(), less.tolist()))]


def _as_extreme(
    units: list[Unit], after: npt.NDArray[np.bool_], incidents: Floats, generator: np.random.Generator, count: int
) -> tuple[Floats, Floats]:
    """In how many permutations the ratio of each cause is at least, and at most, what was seen."""
    seen = _log_ratio(after[None, :], incidents)[0]
    more, less = np.zeros(incidents.shape[1]), np.zeros(incidents.shape[1])
    for begin in range(0, count, CHUNK):
        sides = _permuted(units, after, generator, min(CHUNK, count - begin))
        ratios = _log_ratio(sides, incidents)
        # Equal ratios differ in the last digit.
        more += (ratios >= seen - 1e-9).sum(axis=0)
        less += (ratios <= seen + 1e-9).sum(axis=0)
    return more, less


def judgements(run_s: float) -> int:
    """How many times a rollout that has run for so long could have been judged; 0: not yet."""
    if run_s < FIRST_JUDGED_S:
        return 0
    return 1 + int(math.log(run_s / FIRST_JUDGED_S) / math.log(JUDGED_RATIO) + 1e-9)


def judgement_s(number: int) -> float:
    """How long a rollout had run at this judgement."""
    return FIRST_JUDGED_S * JUDGED_RATIO ** (number - 1)


def part_of_judgement(number: int) -> float:
    """The part of the chance that is allowed which this judgement has; all together have 1."""
    return 4.0 / ((number + 3) * (number + 4))


def _ratio(after: float, before: float) -> float:
    if before > 0:
        return after / before
    return math.inf if after > 0 else 1.0


def discoveries(p_values: list[float], rate: float = FALSE_DISCOVERIES) -> list[bool]:
    """Which tests count as discoveries (Benjamini and Hochberg)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    last = 0
    for nth, i in enumerate(order, start=1):
        if p_values[i] <= rate * nth / len(order):
            last = nth
    chosen = set(order[:last])
    return [i in chosen for i in range(len(p_values))]


def _permuted(
    units: list[Unit], after: npt.NDArray[np.bool_], generator: np.random.Generator, count: int
) -> npt.NDArray[np.bool_]:
    """Sides as they could have been. A host on both sides is its own control: its sides are swapped.
    The sides of the other hosts are dealt anew among them."""
    both: dict[str, list[int]] = {}
    for i, unit in enumerate(units):
        both.setdefault(unit.host, []).append(i)
    pairs = np.array([rows for rows in both.values() if len(rows) == 2], dtype=np.intp).reshape(-1, 2)
    alone = np.array([rows[0] for rows in both.values() if len(rows) == 1], dtype=np.intp)
    sides = np.repeat(after[None, :], count, axis=0)
    if len(pairs):
        swapped = generator.random((count, len(pairs))) < 0.5
        sides[:, pairs[:, 0]] ^= swapped
        sides[:, pairs[:, 1]] ^= swapped
    if len(alone):
        sides[:, alone] = generator.permuted(sides[:, alone], axis=1)
    return sides


def _log_ratio(sides: npt.NDArray[np.bool_], incidents: Floats) -> Floats:
    """The logarithm of after over before, for each host; worlds x causes. One incident is divided
    among all hosts, so that it is finite and favours no side."""
    weights = sides.astype(np.float64)
    hosts_after = weights.sum(axis=1)[:, None]
    hosts_before = len(incidents) - hosts_after
    seen_after = weights @ incidents
    part = 1.0 / len(incidents)
    after = seen_after / np.maximum(hosts_after, 1) + part
    before = (incidents.sum(axis=0) - seen_after) / np.maximum(hosts_before, 1) + part
    ratio: Floats = np.log(after) - np.log(before)
    return ratio
