"""Other people's tests, bare and recorded: what differs is dashcam's fault until shown otherwise.

How it works: each suite of projects.py runs in turn bare and under `dashcam run`, and once without
switch records. The files of tests that differ then run some rounds more on both sides, and the
counts are judged (judging.py). Differences with a reason are named in known.py.

    python3 tests/peers/run.py [--python 3.11] [--rounds 2] [--again 8] [NAME... [--only FILE...]]

What it promises: exit code 1 for any difference that is neither named there nor unsteady on the bare
side of this very run. What the suites print stays under build/peers, the figures in results.json.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Sequence

from environment import BUILD, ROOT, Failed, Place, Skipped, prepare
from judging import CHANCE_AT_MOST, Counts, Run, Verdict, count, is_end, unit_of
from known import KNOWN
from projects import PROJECTS, Project
from running import BARE, ESTIMATES, RECORDED, Side, run

RESULTS = BUILD / "results.json"
_PASSED = ("passed", "xfailed")


class Suite:
    """One project's runs on both sides."""

    def __init__(self, project: Project, place: Place, folder: Path) -> None:
        self.project, self.place, self.folder = project, place, folder
        self.bare: "list[Run]" = []
        self.recorded: "list[Run]" = []

    def round(self, side: Side, only: "Sequence[str]" = ()) -> None:
        """Runs the suite once more, or only some of its files."""
        runs = self.recorded if side.is_recorded else self.bare
        name = f"{len(self.bare) + len(self.recorded) + 1:02}-{side.name.replace(' ', '-')}"
        began = time.monotonic()
        done = run(self.project, self.place, side, self.folder / name, only)
        if side is BARE and all(map(is_end, done.outcomes)):
            raise Failed(f"{self.project.name}: no test ran bare; see {self.folder / name}")
        runs.append(done)
        part = f" of {' '.join(only)}" if only else ""
        print(f"  {side.name}{part}: {told(done)} ({time.monotonic() - began:.0f} s)", flush=True)

    def differing(self) -> "dict[str, Counts]":
        """The tests whose outcomes are not all the same."""
        counts = count(self.bare, self.recorded)
        return {t: c for t, c in counts.items() if c.verdict() != "same"}


def told(done: Run) -> str:
    """A run in a line."""
    tests = [o for t, o in done.outcomes.items() if not is_end(t)]
    ends = {o for t, o in done.outcomes.items() if is_end(t)} - {"exit 0"}
    good, skipped = sum(o in _PASSED for o in tests), tests.count("skipped")
    bad = len(tests) - good - skipped
    return f"{good} passed, {bad} failed, {skipped} skipped" + "".join(f", {e}" for e in sorted(ends))


def examine(project: Project, given: argparse.Namespace, wheel: Path) -> Suite:
    """Runs a suite on both sides, and what differs again."""
    place = prepare(project, given.python, wheel)
    suite = Suite(project, place, BUILD / given.python / project.name / "runs")
    for _ in range(given.rounds):
        suite.round(BARE, given.only)
        suite.round(RECORDED, given.only)
    suite.round(ESTIMATES, given.only)
    files = files_of(suite)
    for _ in range(given.again if files else 0):
        suite.round(BARE, files)
        suite.round(RECORDED, files)
    return suite


def files_of(suite: Suite) -> "tuple[str, ...]":
    """The files or modules of the tests that differ and are not known to; all, if a run's end does."""
    found = {unit_of(test) for test in suite.differing() if known_as(suite.project, test) is None}
    return suite.project.run if found == {""} else tuple(sorted(found - {""}))


def known_as(project: Project, test: str) -> "Verdict | None":
    """How known.py names the test."""
    return next((k.seen for k in KNOWN if (k.project, k.test) == (project.name, test)), None)


def judged(suite: Suite) -> "list[dict[str, object]]":
    """The differences of a suite, with what the counts say and whether each is accepted."""
    differing = suite.differing()
    follows = any(not is_end(t) for t in differing)
    rows: "list[dict[str, object]]" = []
    for test, counts in sorted(differing.items()):
        ends = {**counts.bare, **counts.recorded}
        if is_end(test) and follows and all(e.startswith("exit ") for e in ends):
            continue  # the exit code only says that a test failed
        verdict, known = counts.verdict(), known_as(suite.project, test)
        is_accepted = verdict == "unsteady" or known is not None and (
            known == "changed" or counts.chance() >= CHANCE_AT_MOST
        )
        rows.append(
            {
                "test": test,
                "bare": dict(counts.bare),
                "recorded": dict(counts.recorded),
                "verdict": verdict,
                "known": known,
                "is_accepted": is_accepted,
            }
        )
    return rows


def report(suite: Suite, python: str, rounds: int) -> "dict[str, object]":
    """The figures of a suite: of its first rounds, and what differs over all."""
    rows = judged(suite)
    for row in rows:
        word = "known to be " + str(row["known"]) if row["known"] else row["verdict"]
        print(f"  {word}: {row['test']}\n    bare {row['bare']}, recorded {row['recorded']}")
    sides = {"bare": told(suite.bare[0]), "recorded": told(suite.recorded[0])}
    return {"version": suite.project.version, "python": python, "rounds": rounds, **sides, "differ": rows}


def table(results: "dict[str, dict[str, Any]]") -> str:
    """The figures of all suites as Markdown."""
    lines = ["| suite | Python | bare | recorded | changed | unsteady | rounds |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, of in sorted(results.items()):
        differ = of["differ"]
        changed = sum(row["verdict"] == "changed" for row in differ)
        suite = f"{name.split()[0]} {of['version'] or ''}".strip()
        figures = [of["bare"], of["recorded"], changed, len(differ) - changed, of["rounds"]]
        lines.append("| " + " | ".join([suite, of["python"], *map(str, figures)]) + " |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description="other people's tests, bare and recorded")
    parser.add_argument("names", nargs="*", help="suites of projects.py; all if none is named")
    parser.add_argument("--python", default="3.11")
    parser.add_argument("--rounds", type=int, default=2, help="whole runs on each side")
    parser.add_argument("--again", type=int, default=8, help="further runs of files that differ, on each side")
    parser.add_argument("--only", nargs="*", default=(), type=str, help="files or modules of the suites named")
    parser.add_argument("--table", action="store_true", help="only print the figures of the last runs")
    parser.add_argument("--wheel", type=Path, help="dashcam's; default: the one in build/wheels")
    found = parser.parse_args()
    wrong = set(found.names) - {p.name for p in PROJECTS}
    if wrong:
        parser.error(f"no suite {', '.join(sorted(wrong))}; there are {', '.join(p.name for p in PROJECTS)}")
    return found


def main() -> int:
    # So that what runs is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = arguments()
    if given.table:
        print(table(json.loads(RESULTS.read_text())))
        return 0
    built = ROOT / "build" / "wheels" / given.python
    wheels = [given.wheel] if given.wheel else sorted(built.glob("*.whl"))
    if not wheels:
        print(f"peers: no wheel in {built}; run PYTHONS={given.python} tools/setup", file=sys.stderr)
        return 1
    wrong = 0
    chosen = [p for name in given.names for p in PROJECTS if p.name == name] or PROJECTS
    for project in chosen:
        print(f"{project.name} {project.version or ''} on Python {given.python}", flush=True)
        try:
            suite = examine(project, given, wheels[-1])
        except Skipped as skipped:
            print(f"peers: {project.name}: SKIPPED: {skipped}")
            continue
        except Failed as failed:
            print(f"peers: {failed}", file=sys.stderr)
            wrong += 1
            continue
        found = report(suite, given.python, given.rounds)
        wrong += sum(not row["is_accepted"] for row in found["differ"])
        if given.only:
            continue  # not the figures of the suite
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept[f"{project.name} {given.python}"] = found
        RESULTS.write_text(json.dumps(kept, indent=1))
    print(f"peers: {wrong} differences that nothing explains" if wrong else "peers: no difference that is not known")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
