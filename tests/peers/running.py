"""Runs one suite once, bare or recorded, and reads which outcome each test had.

How it works: the suite's own command runs in its source, with an environment that holds nothing of
the caller's: a temporary folder is its home, and signals do what they do by default. On the
recorded side, `dashcam run` precedes the same words. The outcomes come line by line from
peers_report.py. A suite of unittest modules is a process for each module.

What it promises: a run ends. A process that takes too long is killed with everything that it
started, and its end is an outcome, as are exit codes and signals. A recorded run that dashcam did
not record is an error, never a pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Sequence

from environment import Failed, Place
from judging import EXIT, Run
from projects import Project

# A test has passed only if none of its phases and subtests has another outcome.
_RANK = ["passed", "skipped", "xfailed", "xpassed", "failed", "error"]


@dataclass(frozen=True)
class Side:
    """A way to run a suite."""

    name: str
    is_recorded: bool
    settings: "tuple[tuple[str, str], ...]" = ()


# A request of 50 ms makes a capture, so that captures are written while the tests run.
BARE = Side("bare", False)
RECORDED = Side("recorded", True, (("SLOW", "50ms"),))
ESTIMATES = Side("without switches", True, (("SLOW", "50ms"), ("SWITCHES", "off")))


def run(project: Project, place: Place, side: Side, folder: Path, only: "Sequence[str]" = ()) -> Run:
    """Runs the suite, or only the named files or modules; `folder` keeps its output."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outcomes: "dict[str, str]" = {}
    for name, words in _commands(project, only):
        part = folder / (name or "suite")
        part.mkdir()
        end = _process(project, place, side, words, part)
        outcomes[f"{name}::{EXIT}" if name else EXIT] = end
        outcomes.update(_read(part / "report", name, side))
    return Run(outcomes, frozenset(only) if only else None)


def _commands(project: Project, only: "Sequence[str]") -> "Iterable[tuple[str, list[str]]]":
    """The processes of a run: a name, which is empty if there is only one, and the words."""
    if project.kind == "pytest":
        words = ["-m", "pytest", "-p", "peers_report", "-p", "no:cacheprovider", "-q"]
        words += [f"--deselect={test}" for test in project.deselected]
        yield "", [*words, *project.options, *(only or project.run)]
        return
    for module in only or project.run:
        if module not in project.deselected:
            yield module, ["-m", "peers_report", *project.options, module]


def _process(project: Project, place: Place, side: Side, words: "Sequence[str]", part: Path) -> str:
    command = [str(place.python), *words]
    if side.is_recorded:
        command = [str(place.dashcam), "run", "--", *command]
    # Short, as the path of a socket of a test has 107 characters.
    home = tempfile.mkdtemp(prefix="peers-")
    try:
        with open(part / "output", "wb") as output:
            started = subprocess.Popen(
                command,
                cwd=place.source,
                env=_environment(project, place, side, home, part),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_take_signals,
            )
            return _end(started, project.seconds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _take_signals() -> None:
    # Background jobs ignore the first two, and `nohup` the third, and so would what they start: tests
    # send these to themselves and to children.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _environment(project: Project, place: Place, side: Side, home: str, part: Path) -> "dict[str, str]":
    found = {
        "PATH": os.pathsep.join([str(place.python.parent), os.environ.get("PATH", os.defpath)]),
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PEERS_REPORT": str(part / "report"),
        **project.environment,
    }
    if side.is_recorded:
        found.update({f"DASHCAM_{name}": value for name, value in side.settings})
        found["DASHCAM_OUT"] = os.path.join(home, "captures")
        if project.records_children:
            found["DASHCAM_CHILDREN"] = "on"
    return found


def _end(started: "subprocess.Popen[bytes]", seconds: int) -> str:
    """Waits for a process and returns how it ended. Its children end with it, however it ends."""
    try:
        started.wait(seconds)
        code = started.returncode
    except subprocess.TimeoutExpired:
        code = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    if code is None:
        return f"not done in {seconds} s"
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def _read(report: Path, name: str, side: Side) -> "dict[str, str]":
    """The outcomes of a process. Raises Failed if it was not recorded as wanted."""
    lines = report.read_text("utf-8", "replace").splitlines() if report.exists() else []
    outcomes: "dict[str, str]" = {}
    for line in map(json.loads, lines):
        if "is_recorded" in line:
            if line["is_recorded"] != side.is_recorded:
                raise Failed(f"{report}: found is_recorded {line['is_recorded']}, wanted {side.is_recorded}")
            continue
        test = f"{name}::{line['test']}" if name else line["test"]
        known = outcomes.get(test, "passed")
        outcomes[test] = max(known, line["outcome"], key=_RANK.index)
    return outcomes
