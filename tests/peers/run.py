"""Other projects' tests, bare and recorded: a difference is dashcam's fault until shown otherwise.

How it works: each suite of projects.py runs in turn bare and under `dashcam run`, and once without
switch records. The files of tests that differ then run some rounds more on both sides, and the
counts are judged (judging.py). Differences with a reason are named in known.py.

    python3 tests/peers/run.py [--python 3.11] [--rounds 2] [--again 8] [NAME... [--only FILE...]]

What it promises: exit code 1 for any difference that is neither named there nor unsteady on the
bare side of this very run. The suites' output is kept under build/peers, the figures in
results.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from environment import BUILD, ROOT, Failed, Skipped, prepare
from postgres import server
from projects import PROJECTS, Project
from suite import Suite, summary

RESULTS = BUILD / "results.json"


def table(results: "dict[str, dict[str, Any]]") -> str:
    """The figures of all suites as Markdown."""
    titles = ["suite", "Python", "bare", "recorded", "changed", "unsteady", "rounds"]
    lines = ["| " + " | ".join(titles) + " |", "| " + " | ".join("---" for _ in titles) + " |"]
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
    parser.add_argument("--with-switches-only", action="store_true", help="no run without switch records")
    parser.add_argument("--only", nargs="*", default=(), type=str, help="files or modules of the suites named")
    parser.add_argument("--table", action="store_true", help="only print the figures of the last runs")
    parser.add_argument("--wheel", type=Path, help="dashcam's; default: the one in build/wheels")
    found = parser.parse_args()
    wrong = set(found.names) - {p.name for p in PROJECTS}
    if wrong:
        parser.error(f"no suite {', '.join(sorted(wrong))}; there are {', '.join(p.name for p in PROJECTS)}")
    return found


def measure(project: Project, given: argparse.Namespace, wheel: Path) -> int:
    """Runs a suite, prints and keeps its figures; returns the number of unexplained differences.
    Raises Failed or Skipped."""
    place = prepare(project, given.python, wheel)
    with contextlib.ExitStack() as stack:
        if project.postgres:
            address = stack.enter_context(server())
            variables = {name: words.format(**address) for name, words in project.postgres.items()}
            project = replace(project, environment={**project.environment, **variables})
        suite = Suite(project, place, BUILD / given.python / project.name / "runs")
        suite.examine(given.rounds, given.again, given.only, not given.with_switches_only)
    found = suite.differences()
    for difference in found:
        print(difference)
    if not given.only:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept[f"{project.name} {given.python}"] = {
            "version": project.version,
            "python": given.python,
            "rounds": given.rounds,
            "bare": summary(suite.bare[0]),
            "recorded": summary(suite.recorded[0]),
            "differ": [asdict(difference) for difference in found],
        }
        RESULTS.write_text(json.dumps(kept, indent=1))
    return sum(not difference.is_accepted for difference in found)


def main() -> int:
    """The number of unexplained differences decides: 1 if there are any."""
    # So that a suite ends with this process.
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
    for project in [p for name in given.names for p in PROJECTS if p.name == name] or PROJECTS:
        print(f"{project.name} {project.version or ''} on Python {given.python}", flush=True)
        try:
            wrong += measure(project, given, wheels[-1])
        except Skipped as skipped:
            print(f"peers: {project.name}: SKIPPED: {skipped}")
        except Failed as failed:
            print(f"peers: {failed}", file=sys.stderr)
            wrong += 1
    print(f"peers: {wrong} differences or errors that nothing explains" if wrong else "peers: nothing differs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
