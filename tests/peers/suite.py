"""One suite on both sides: its rounds, which files run again, and which differences remain.

How it works: whole rounds first, bare and recorded in turn, and one without switch records. The
files (or modules) of tests that differ then run some rounds more on both sides, so that their
counts distinguish harm from unsteadiness (judging.py).

What it promises: a suite of which no test passes bare is an error, never a pass. The exit code of a
process is left out if a test of the run differs, as the exit code only repeats that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Optional, Sequence

from environment import Failed, Place
from judging import CHANCE_AT_MOST, Counts, Run, Verdict, count, is_end, unit_of
from known import KNOWN
from projects import Project
from running import BARE, ESTIMATES, RECORDED, Side, run

_GOOD = ("passed", "xfailed")


@dataclass(frozen=True)
class Difference:
    """A test whose outcomes are not all the same."""

    test: str
    bare: "dict[str, int]"
    recorded: "dict[str, int]"
    verdict: Verdict
    # Its name in known.py.
    known: "Optional[Literal['changed', 'unsteady']]"
    is_accepted: bool

    def __str__(self) -> str:
        word = f"known to be {self.known}" if self.known else self.verdict
        return f"  {word}: {self.test}\n    bare {self.bare}, recorded {self.recorded}"


class Suite:
    """One project's runs on both sides."""

    def __init__(self, project: Project, place: Place, folder: Path) -> None:
        self.project, self.place, self.folder = project, place, folder
        self.bare: "list[Run]" = []
        self.recorded: "list[Run]" = []

    def examine(self, rounds: int, again: int, only: "Sequence[str]" = (), has_estimates: bool = True) -> None:
        """Runs it on both sides, and the differing files again. `has_estimates`: and once without
        switch records. Raises Failed."""
        for _ in range(rounds):
            self._round(BARE, only)
            self._round(RECORDED, only)
        if has_estimates:
            self._round(ESTIMATES, only)
        files = self._differing_files()
        for _ in range(again if files else 0):
            self._round(BARE, files)
            self._round(RECORDED, files)

    def differences(self) -> "list[Difference]":
        """The differences, by name, with the judgement of the counts."""
        counts = self._differing()
        has_tests = any(not is_end(test) for test in counts)
        return [
            self._difference(test, of)
            for test, of in sorted(counts.items())
            if not (is_end(test) and has_tests and _is_exit_only(of))
        ]

    def _round(self, side: Side, only: "Sequence[str]") -> None:
        runs = self.recorded if side.is_recorded else self.bare
        name = f"{len(self.bare) + len(self.recorded) + 1:02}-{side.name.replace(' ', '-')}"
        began = time.monotonic()
        done = run(self.project, self.place, side, self.folder / name, only)
        # Files that cannot be collected have an outcome, too.
        if not side.is_recorded and not any(outcome in _GOOD for outcome in done.outcomes.values()):
            raise Failed(f"{self.project.name}: no test passed bare; see {self.folder / name}")
        runs.append(done)
        part = f" of {' '.join(only)}" if only else ""
        print(f"  {side.name}{part}: {summary(done)} ({time.monotonic() - began:.0f} s)", flush=True)

    def _differing(self) -> "dict[str, Counts]":
        counts = count(self.bare, self.recorded)
        return {test: of for test, of in counts.items() if of.verdict() != "same"}

    def _differing_files(self) -> "tuple[str, ...]":
        """The files or modules of tests that differ and are not known; all, if only a run's end
        differs.
        """
        found = {unit_of(test) for test in self._differing() if self._known(test) is None}
        return self.project.run if found == {""} else tuple(sorted(found - {""}))

    def _difference(self, test: str, of: Counts) -> Difference:
        verdict, known = of.verdict(), self._known(test)
        # A test that is known to be unsteady may show it on the recorded side alone, but not so
        # often that chance does not explain it.
        is_known = known == "changed" or (known == "unsteady" and of.chance() >= CHANCE_AT_MOST)
        return Difference(test, dict(of.bare), dict(of.recorded), verdict, known, verdict == "unsteady" or is_known)

    def _known(self, test: str) -> "Optional[Literal['changed', 'unsteady']]":
        return next((k.seen for k in KNOWN if (k.project, k.test) == (self.project.name, test)), None)


def summary(done: Run) -> str:
    """A run in one line: its tests, and how its processes ended if that says more."""
    tests = [outcome for test, outcome in done.outcomes.items() if not is_end(test)]
    ends = {outcome for test, outcome in done.outcomes.items() if is_end(test)}
    good, skipped = sum(outcome in _GOOD for outcome in tests), tests.count("skipped")
    words = [f"{good} passed", f"{len(tests) - good - skipped} failed", f"{skipped} skipped"]
    return ", ".join(words + sorted(end for end in ends if not end.startswith("exit ")))


def _is_exit_only(of: Counts) -> bool:
    return all(end.startswith("exit ") for end in {*of.bare, *of.recorded})
