"""A lane of checks: parts that run one after the other, each once, and the report of all of them.

A part is a command. It runs in a process group of its own with its output passed on and kept in
build/<lane>/<part>.log; a part that takes over PART_S seconds is ended, together with the processes
it started. Its tests come from JUnit files it leaves (nextest, pytest, node) or from lines `ok NAME
(SECONDS s)` and `FAILED NAME (SECONDS s)`. The report names what failed, the time of each part, the
slowest tests, and closes with two lines of totals.

It promises that nothing is run again to pass. Only downloads run beside another part (`Beside`).
Missing on purpose: the list of parts (tools/test, tools/test_live), and tests of two parts at the
same time: they would disturb each other's times.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Far above the time of any part: it only ends parts that hang.
PART_S = float(os.environ.get("DASHCAM_TEST_PART_SECONDS", "1800"))
KILL_AFTER_S = 10
TAIL_LINES = 12
LINE = re.compile(r"(ok|FAILED) +(\S.*?)(?: \((\d+(?:\.\d+)?) s\))?")


@dataclass
class Case:
    """A test that ran."""

    part: str
    name: str
    seconds: float
    outcome: str  # "passed", "failed" or "skipped"


@dataclass
class Part:
    """A part that ran: whether its command succeeded, and its tests."""

    name: str
    ok: bool
    seconds: float
    cpu_s: float  # of its processes that were waited for: what it costs however busy the machine is
    crowding: float  # runnable tasks for each CPU while it ran, 1 at least
    cases: list[Case] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """The failed tests by name; the last lines of output if no test failed."""
        named = [case.name for case in self.cases if case.outcome == "failed"]
        return named or ([] if self.ok else self.tail)


class Crowding:
    """Samples the number of runnable tasks for each CPU while a part runs: the factor by which the
    machine slows down computing."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._samples: list[float] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        cpus = len(os.sched_getaffinity(0))
        while not self._done.wait(0.5):
            runnable = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])
            self._samples.append(runnable / cpus)

    def end(self) -> float:
        """The mean, 1 at least."""
        self._done.set()
        self._thread.join()
        return max(1.0, sum(self._samples) / max(1, len(self._samples)))


def linted() -> dict[str, str]:
    """The environment in which cargo's builds lint the workspace's own crates as they compile them,
    warnings being errors: what `cargo clippy -- -D warnings` says, without its second pass over all
    crates. cargo-clippy gives its driver these variables, too; tests/tools holds that they work."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True)
    driver = Path(sysroot.stdout.strip()) / "bin/clippy-driver"
    if not driver.exists():
        sys.exit(f"test: found no {driver}, wanted clippy; `rustup component add clippy`, or Debian's rust-clippy")
    return {"RUSTC_WORKSPACE_WRAPPER": str(driver), "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"}


def junit_cases(part: str, path: Path) -> list[Case]:
    """The tests in a JUnit file."""
    cases = []
    for case in xml.parse(path).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        name = f"{case.get('classname', '')} {case.get('name', '?')}".strip()
        cases.append(Case(part, name, float(case.get("time") or 0.0), outcome))
    return cases


def printed_cases(part: str, lines: list[str]) -> list[Case]:
    """The tests that a command of ours reports, one line each."""
    found = (LINE.fullmatch(line.rstrip()) for line in lines)
    return [
        Case(part, m[2], float(m[3] or 0.0), "passed" if m[1] == "ok" else "failed") for m in found if m
    ]


def run(lane: str, name: str, command: list[str], junit: list[Path], env: dict[str, str]) -> Part:
    """Runs one part to its end."""
    log = ROOT / "build" / lane / f"{name.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    for path in junit:
        path.unlink(missing_ok=True)
    print(f"==== {name}", flush=True)
    begin, cpu_s, crowding = time.monotonic(), children_cpu_s(), Crowding()
    code, lines = run_command(command, log, env)
    seconds, cpu_s = time.monotonic() - begin, children_cpu_s() - cpu_s
    cases = printed_cases(name, lines)
    for path in junit:
        cases += junit_cases(name, path) if path.exists() else []
    ok = code == 0 and all(case.outcome != "failed" for case in cases)
    part = Part(name, ok, seconds, cpu_s, crowding.end(), cases, [line.rstrip() for line in lines[-TAIL_LINES:]])
    print(f"==== {name}: {'ok' if ok else f'FAILED (exit {code})'} ({seconds:.0f} s)", flush=True)
    return part


class Beside:
    """A part that waits for the network more than for a CPU, so it runs while another part builds.

    Its output is kept in its log and printed at the end. Its time is what `join` had to wait; its CPU
    time is counted in the parts that ran meanwhile, too.
    """

    def __init__(self, lane: str, name: str, command: list[str], env: dict[str, str]) -> None:
        self._name = name
        self._log = ROOT / "build" / lane / f"{name}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("w", encoding="utf-8") as kept:
            self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | env, stdin=subprocess.DEVNULL,
                                             stdout=kept, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process.poll() is None:
            end(self._process)

    def join(self) -> Part:
        """Waits for its end."""
        begin, cpu_s, crowding = time.monotonic(), children_cpu_s(), Crowding()
        try:
            code = self._process.wait(PART_S)
        except subprocess.TimeoutExpired:
            end(self._process)
            code = 124
        seconds = time.monotonic() - begin
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        print(f"==== {self._name}, begun beside", *lines, sep="\n", flush=True)
        print(f"==== {self._name}: {'ok' if code == 0 else f'FAILED (exit {code})'} ({seconds:.0f} s)", flush=True)
        return Part(self._name, code == 0, seconds, children_cpu_s() - cpu_s, crowding.end(), [], lines[-TAIL_LINES:])


def children_cpu_s() -> float:
    """CPU time of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_command(command: list[str], log: Path, env: dict[str, str]) -> tuple[int, list[str]]:
    """Exit code and lines of a command, which is ended if it is not done in time."""
    lines: list[str] = []
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)

    def copy() -> None:
        assert process.stdout is not None
        with log.open("w", encoding="utf-8") as kept:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                kept.write(line)
                lines.append(line)

    # Processes that the part leaves running may hold the pipe: only the command is waited for.
    copier = threading.Thread(target=copy, daemon=True)
    copier.start()
    try:
        code = process.wait(PART_S)
    except subprocess.TimeoutExpired:
        lines.append(f"not done in {PART_S:.0f} s; it was ended\n")
        print(lines[-1], end="", flush=True)
        code = 124
    except BaseException:
        end(process)
        raise
    if code == 124:
        end(process)
    copier.join(KILL_AFTER_S)
    return code, list(lines)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a part's process group: with SIGTERM, then with SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(KILL_AFTER_S)
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue


def times(parts: list[Part]) -> str:
    """One line for each part: its time, its CPU time, the load of the machine."""
    rows = [f"{part.seconds:6.0f} s  {part.cpu_s:6.0f} s of CPU  {part.crowding:4.1f} runnable tasks a CPU  {part.name}"
            f"{'' if part.ok else '  FAILED'}" for part in parts]
    return "\n".join(["\n==== time of each part:", *rows])


def totals(parts: list[Part]) -> str:
    """The two closing lines: tests, then parts."""
    cases = [case for part in parts for case in part.cases]
    count = {outcome: sum(case.outcome == outcome for case in cases) for outcome in ("passed", "failed", "skipped")}
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    good = sum(part.ok for part in parts)
    return (f"tests: {count['passed']} passed, {count['failed']} failed{skipped}\n"
            f"parts: {good} passed, {len(parts) - good} failed")
