"""One fault at a time, of everything that can fail below dashcam: a recorded program's output, exit
code and stderr, without dashcam's lines, must be those of the bare run.

    python3 tests/faults/run.py                  all of it (`make test-live`)
    python3 tests/faults/run.py calls            each call site of dashcam, each error
    python3 tests/faults/run.py worlds           full disks, limits, signals, ends at any moment
    python3 tests/faults/run.py calls openat     some of these
    python3 tests/faults/run.py --quick          one error for each system call, a few worlds

Prints a table, and the faults that were not survived. Needs an installed dashcam: run it with that
environment's Python.
"""

from __future__ import annotations

import argparse
import collections
import errno
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Optional

import calls
import errnos
import worlds

HERE = Path(__file__).resolve().parent
OURS = r"/dashcam/_native"
# dashcam's lines on stderr: one for each message.
OWN_LINE = "dashcam: "
SECONDS = 60.0
# System calls handed over in one run, while sites are collected.
AT_ONCE = 8


def recorded(folder: str, *program: str) -> "list[str]":
    """The command that records a program."""
    dashcam = str(Path(sys.executable).with_name("dashcam"))
    return [dashcam, "run", "--slow", "50ms", "--out", folder, "--", sys.executable, *program]


def bare(*program: str) -> "list[str]":
    return [sys.executable, *program]


def lines_of_program(err: str) -> str:
    """The lines of a stderr that are not dashcam's, without the process' own number (CPython warns of a
    fork with it)."""
    lines = "".join(line for line in err.splitlines(True) if not line.startswith(OWN_LINE))
    return re.sub(r"\bpid=\d+", "pid=N", lines)


class Table:
    """The faults that were tried, and those that were not survived."""

    def __init__(self) -> None:
        self.tried: "collections.Counter[str]" = collections.Counter()
        self.failed: "list[tuple[str, str, str]]" = []
        self.known: "collections.Counter[str]" = collections.Counter()

    def note(self, group: str, what: str, wrong: Optional[str], known: Optional[str] = None) -> None:
        self.tried[group] += 1
        if wrong and known:
            self.known[group] += 1
            print(f"KNOWN {group}: {what}: {known}", flush=True)
        elif wrong:
            self.failed.append((group, what, wrong))
            print(f"NOT SURVIVED {group}: {what}: {wrong}", flush=True)

    def show(self) -> None:
        failed = collections.Counter(group for group, *_ in self.failed)
        print("| what fails | faults | survived | known |\n| --- | --- | --- | --- |")
        for group, tried in sorted(self.tried.items()):
            known = self.known[group]
            print(f"| {group} | {tried} | {tried - failed[group] - known} | {known} |")
        tried, known = sum(self.tried.values()), sum(self.known.values())
        print(f"| all | {tried} | {tried - len(self.failed) - known} | {known} |")


def differs(expected: calls.Outcome, got: calls.Outcome) -> Optional[str]:
    """The differences from the bare run."""
    if got.late:
        return f"no end within {SECONDS:.0f} s"
    if got.code != expected.code:
        return f"exit code {got.code}, bare {expected.code}; {got.err[-300:]!r}"
    if got.out != expected.out:
        return f"stdout {got.out[-300:]!r}, bare {expected.out[-300:]!r}"
    if lines_of_program(got.err) != lines_of_program(expected.err):
        return f"stderr {got.err[-600:]!r}, bare {expected.err[-300:]!r}"
    return None


class Sites:
    """Runs the program; dashcam's calls are handed over."""

    def __init__(self, table: Table, quick: bool) -> None:
        self.table, self.quick = table, quick
        self.folder = tempfile.TemporaryDirectory(prefix="dashcam-faults-")
        program = str(HERE / "program.py")
        self.bare = calls.run(bare(program), [], lambda call: 0, SECONDS, env={"DASHCAM_ENABLED": "0"})
        self.words = recorded(self.folder.name, program)

    def find(self, names: "list[str]") -> "dict[tuple[str, str], int]":
        """dashcam's call sites, and how often each calls."""
        found: "collections.Counter[tuple[str, str]]" = collections.Counter()
        caller = calls.Caller(OURS)

        def answer(call: calls.Call) -> int:
            site = caller.site(call)
            if site:
                found[errnos.NAMES[call.number], site] += 1
            return 0

        for first in range(0, len(names), AT_ONCE):
            some = names[first:first + AT_ONCE]
            got = calls.run(self.words, [errnos.CALLS[name][0] for name in some], answer, SECONDS)
            self.table.note("(handed over and let through)", ", ".join(some), differs(self.bare, got))
        return found

    def fail(self, name: str, site: str, error: int) -> int:
        """One run in which each call of a site fails; returns how often that was."""
        caller, hit = calls.Caller(OURS), 0

        def answer(call: calls.Call) -> int:
            nonlocal hit
            if caller.site(call) != site:
                return 0
            hit += 1
            return error

        got = calls.run(self.words, [errnos.CALLS[name][0]], answer, SECONDS)
        what = f"{errno.errorcode[error]} at {site} ({hit} times)"
        self.table.note(name, what, differs(self.bare, got), errnos.KNOWN.get((name, error)))
        return hit

    def all(self, names: "list[str]") -> None:
        sites = self.find(names)
        print(f"{len(sites)} call sites of ours in {len({name for name, _ in sites})} system calls", flush=True)
        for (name, site), times in sorted(sites.items()):
            print(f"{name}: {site}: {times} calls", flush=True)
        # The first error of each site, then the second: a run that is stopped halfway has covered
        # every site.
        most = 1 if self.quick else max(len(errnos.errors(name)) for name, _ in sites)
        for turn in range(most):
            for name, site in sorted(sites):
                if turn < len(errnos.errors(name)):
                    self.fail(name, site, errnos.errors(name)[turn])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("part", nargs="?", choices=["calls", "worlds"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_intermixed_args()
    table = Table()
    if asked.part in (None, "calls"):
        try:
            calls.supported()
        except calls.Unsupported as why:
            print(f"faults: call sites are left out: {why}", file=sys.stderr)
        else:
            Sites(table, asked.quick).all(asked.names or list(errnos.CALLS))
    if asked.part in (None, "worlds"):
        worlds.all(table.note, asked.names, asked.quick)
    table.show()
    return 1 if table.failed else 0


if __name__ == "__main__":
    os.environ.pop("DASHCAM_ENABLED", None)
    sys.exit(main())
