"""Distinguishes a test that recording changed from a test that is unsteady by itself.

How it works: a test has a count of outcomes on each side, bare and recorded. It is changed if the
recorded side shows an outcome that the bare side never had, or if both sides show the same outcomes
in shares so different that chance explains it in fewer than one of a hundred comparisons (Fisher's
exact test). Any other difference is unsteady: the bare side has it, too.

What it promises: without both outcomes on the bare side, no difference is called unsteady. Missing
on purpose: times. A test that only got slower has the same outcome.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import comb
from typing import Iterable, Literal, Mapping

Verdict = Literal["same", "unsteady", "changed"]

# With eight rounds on each side this needs seven more failures on one side.
CHANCE_AT_MOST = 0.01
# The name under which the end of a process is judged like a test: its exit code, a signal, or a
# timeout.
EXIT = "(exit)"
MISSING = "missing"


def unit_of(test: str) -> str:
    """The file or module that a test is in; empty for the end of a run in one process."""
    return test.rpartition("::" + EXIT)[0] if is_end(test) else test.partition("::")[0]


def is_end(test: str) -> bool:
    """Whether it is the end of a process, and no test."""
    return test.endswith(EXIT)


@dataclass(frozen=True)
class Run:
    """One run of one suite, or of some of its files or modules: the outcome of each test it
    reached.
    """

    outcomes: Mapping[str, str]
    # None: all of them.
    units: "frozenset[str] | None" = None

    def ended_early(self) -> bool:
        """Whether a process of the run was ended by a signal or a timeout, so that tests are
        missing for that reason alone."""
        ends = (outcome for test, outcome in self.outcomes.items() if is_end(test))
        return any(not end.startswith("exit ") for end in ends)

    def misses(self, test: str) -> bool:
        """Whether a test should have run and did not."""
        is_due = self.units is None or unit_of(test) in self.units
        return is_due and test not in self.outcomes and not self.ended_early()


@dataclass
class Counts:
    """The outcomes of one test on both sides."""

    bare: "Counter[str]" = field(default_factory=Counter)
    recorded: "Counter[str]" = field(default_factory=Counter)

    def verdict(self) -> Verdict:
        """The judgement from both sides together."""
        if not self.bare or not self.recorded:
            return "same"  # a run that ended early never reached it: its end is judged instead
        if not set(self.recorded) <= set(self.bare):
            return "changed"
        if len(self.bare) == 1:
            return "same"
        return "changed" if self.chance() < CHANCE_AT_MOST else "unsteady"

    def chance(self) -> float:
        """The likelihood that counts are at least so far apart if both sides are the same: the
        smallest of the outcomes' exact tests, times their number, as that many were tried."""
        outcomes = set(self.bare) | set(self.recorded)
        totals = sum(self.bare.values()), sum(self.recorded.values())
        least = min(fisher(self.bare[o], totals[0], self.recorded[o], totals[1]) for o in outcomes)
        # Of two outcomes the second gives the same test as the first.
        return min(1.0, least * (len(outcomes) if len(outcomes) > 2 else 1))


def fisher(hits: int, total: int, other_hits: int, other_total: int) -> float:
    """Fisher's exact test, two-sided: the chance of a split that is at most as likely as this
    one.
    """
    all_hits = hits + other_hits

    def ways(split: int) -> int:
        return comb(total, split) * comb(other_total, all_hits - split)

    splits = range(max(0, all_hits - other_total), min(total, all_hits) + 1)
    return sum(ways(s) for s in splits if ways(s) <= ways(hits)) / comb(total + other_total, all_hits)


def count(bare: Iterable[Run], recorded: Iterable[Run]) -> "dict[str, Counts]":
    """The counts of each test that any of the runs reached."""
    sides = list(bare), list(recorded)
    found: "dict[str, Counts]" = {t: Counts() for runs in sides for run in runs for t in run.outcomes}
    for test, counts in found.items():
        for runs, counter in zip(sides, (counts.bare, counts.recorded)):
            for run in runs:
                if test in run.outcomes:
                    counter[run.outcomes[test]] += 1
                elif run.misses(test):
                    counter[MISSING] += 1
    return found
