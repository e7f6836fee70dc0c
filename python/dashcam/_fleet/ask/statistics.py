"""Intervals and tests over hosts. Pure functions of numbers; NumPy.

How it works: hosts are the unit, never captures or requests, since spikes come in bursts on one
host. `shares` is a Poisson bootstrap: each host counts 0, 1, 2, ... times in each of REPLICATES
worlds, as a hash of its name says. `compare` permutes hosts between two sides and counts
incidents.

What it promises: chance comes from hashes of names, so the same rows give the same interval on any
machine and engine. A test against many causes keeps the false discovery rate (Benjamini and
Hochberg).

What is missing on purpose: rates for each request. They need a count of all requests, which no
capture has.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Worlds of the bootstrap. 2.5 % of them are five, the least that a bound of an interval may rest on.
REPLICATES = 200
# Fewer hosts have no interval: too few different worlds could be made of them.
HOSTS_MIN = 5
# Permutations; the smallest p-value, 1 in 5,000, must pass a test among a hundred causes.
PERMUTATIONS = 4999
# Of what is reported as different so much may be chance.
FALSE_DISCOVERIES = 0.05
# Rows of permutations in memory at once.
CHUNK = 256
Floats = npt.NDArray[np.float64]


def seed(text: str) -> int:
    """64 bits from a text, the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "little")


def uniform(seeds: npt.NDArray[np.uint64], streams: int) -> Floats:
    """`streams` numbers from 0 to 1 for each seed (SplitMix64)."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, streams + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word = seeds[:, None] + steps[None, :]
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word = word ^ (word >> np.uint64(31))
    chance: Floats = (word >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return chance


def host_weights(hosts: list[str]) -> Floats:
    """How often each host counts in each world: Poisson numbers with mean 1."""
    seeds = np.array([seed(host) for host in hosts], dtype=np.uint64)
    chance = uniform(seeds, REPLICATES)
    bounds = np.cumsum([math.exp(-1) / math.factorial(n) for n in range(12)])
    return np.searchsorted(bounds, chance).astype(np.float64)


def shares(excess: Floats, totals: Floats, weights: Floats) -> list[tuple[float, float] | None]:
    """A 95 % interval for each group's share of all excess. `excess` is hosts x groups, `totals` the
    excess of each host, `weights` hosts x worlds. None: too few hosts."""
    if len(totals) < HOSTS_MIN:
        return [None] * excess.shape[1]
    whole = totals @ weights
    parts = excess.T @ weights
    of_worlds = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)[:, whole > 0]
    if of_worlds.shape[1] == 0:
        return [None] * excess.shape[1]
    low, high = np.quantile(of_worlds, [0.025, 0.975], axis=1)
    return [(float(a), float(b)) for a, b in zip(low, high)]


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


def compare(units: list[Unit], incidents: Floats, name: str) -> list[Difference]:
    """Compares two sides for each cause; `incidents` is units x causes. All units were observed for
    the same time, or the two of each host were: only then may their sides be exchanged."""
    after = np.array([unit.is_after for unit in units])
    seen = _log_ratio(after[None, :], incidents)[0]
    more = np.ones(incidents.shape[1])
    less = np.ones(incidents.shape[1])
    generator = np.random.Generator(np.random.PCG64(seed(name)))
    for begin in range(0, PERMUTATIONS, CHUNK):
        sides = _permuted(units, after, generator, min(CHUNK, PERMUTATIONS - begin))
        ratios = _log_ratio(sides, incidents)
        # Equal ratios differ in the last digit.
        more += (ratios >= seen - 1e-9).sum(axis=0)
        less += (ratios <= seen + 1e-9).sum(axis=0)
    p_values = zip((more / (PERMUTATIONS + 1)).tolist(), (less / (PERMUTATIONS + 1)).tolist())
    means = zip(incidents[after].mean(axis=0).tolist(), incidents[~after].mean(axis=0).tolist())
    return [Difference(_ratio(now, once), *chance) for (now, once), chance in zip(means, p_values)]


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
