#!/usr/bin/env python3
"""Runs the sick programs and their healthy twins under dashcam and scores the verdicts.

Each program runs as a service under `dashcam run` while a load generator in another process sends
requests; then `dashcam why --json` is compared with the case (see cases.py): the first cause, its
place, and its culprit where the case names one. A sick program counts only if the load generator
saw enough slow answers.

A twin makes no capture by itself, so it is killed with SIGKILL and its black boxes are recovered:
they must contain requests, and nothing may be blamed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

import cases
import score
from judging import Outcome, Run, judge_sick, judge_twin, totals, wanted_places

# A capture is made a second after its trigger; a busy machine may take longer.
AFTERMATH_S = 15
# Time for a command that reads a capture or a box.
READ_S = 300


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bin", type=Path, help="folder with dashcam and python; the next two win")
    parser.add_argument("--dashcam", help="the command [--bin, beside --python, PATH]")
    parser.add_argument("--python", help="interpreter of the programs [--bin, this one]")
    parser.add_argument("--case", default="*", help="globs over the cases' names, with commas")
    parser.add_argument("--switches", choices=["on", "off", "both"], default="on")
    parser.add_argument("--twins", choices=["yes", "no", "only"], default="yes")
    parser.add_argument("--seconds", type=float, help="length of each load [the case's]")
    parser.add_argument("--tries", type=int, default=2, help="most runs of a program [2]")
    parser.add_argument(
        "--retry",
        choices=["invalid", "failed"],
        help="what is run again: whatever failed, for the machine's sake, or only what proves nothing, "
        "never a wrong verdict, which is all a score allows [failed; invalid with --judge, --generated]",
    )
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--generated", type=Path, help="cases that generate.py made in this folder")
    parser.add_argument(
        "--judge", type=Path, help="the built example `judge` of crates/diagnosis, for the baselines"
    )
    parser.add_argument("--keep", type=Path, help="keep the captures in this folder")
    parser.add_argument("--again", type=Path, help="run nothing; judge what --keep kept in this folder")
    options = parser.parse_args()
    options.scored = bool(options.generated or options.judge)
    options.retry = options.retry or ("invalid" if options.scored else "failed")
    if options.scored and options.retry == "failed":
        parser.error("--retry failed: a score counts the first verdict on what is valid, not the best of several")
    return options


def locate(options: argparse.Namespace) -> str:
    """Fills in the interpreter and the command; returns an error, "" if there is none."""
    folder = options.bin.absolute() if options.bin else None
    options.python = options.python or (str(folder / "python") if folder else sys.executable)
    # Not resolved: a virtual environment's python is a link, and the link makes the environment.
    options.python = os.path.abspath(shutil.which(options.python) or options.python)
    beside = Path(options.python).parent / "dashcam"
    options.dashcam = (
        options.dashcam
        or (str(folder / "dashcam") if folder else None)
        or (str(beside) if beside.exists() else shutil.which("dashcam"))
    )
    if not options.dashcam:
        return (
            "dashcam was found neither beside the interpreter nor on PATH; "
            "run `make setup`, or give --dashcam"
        )
    options.dashcam = os.path.abspath(shutil.which(options.dashcam) or options.dashcam)
    for path in (options.dashcam, options.python):
        if not os.access(path, os.X_OK):
            return f"{path} is not there or cannot be run; run `make setup`, or give --bin"
    return ""


def run_program(options: argparse.Namespace, case: cases.Case, sick: bool, switches: str) -> Run:
    """One program under dashcam and load, and the verdicts; for a twin on each capture."""
    name = f"{case.name.replace('/', '-')}-{'sick' if sick else 'healthy'}-{switches}"
    if options.again:
        return judge_captures(options, case, sick, options.again / name)
    out = Path(tempfile.mkdtemp(prefix="zoo-"))
    try:
        pressure = score.Pressure()
        record(options, case, sick, switches, out)
        (out / "busy").write_text(str(pressure.share()), "ascii")
        if options.keep:
            shutil.rmtree(options.keep / name, ignore_errors=True)
            shutil.copytree(out, options.keep / name)
        return judge_captures(options, case, sick, out)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def judge_captures(options: argparse.Namespace, case: cases.Case, sick: bool, out: Path) -> Run:
    """The verdicts on the captures of a run, in a folder."""
    captures = sorted((out / "captures").glob("*.dashcam"), key=lambda p: p.stat().st_mtime)
    subjects = captures[-1:] if sick else captures
    begin = time.monotonic()
    verdicts = [why(options, subject) for subject in subjects]
    took = round((time.monotonic() - begin) / max(len(subjects), 1), 2)
    altered = {}
    if sick and captures:
        altered = score.judged(options.judge, captures[-1], case.slow_ms)
    busy = out / "busy"
    return Run(
        cases.figures(out / "load.json"),
        cases.tail(out / "output"),
        captures,
        verdicts,
        altered,
        took,
        float(busy.read_text("ascii")) if busy.exists() else 0.0,
    )


def record(
    options: argparse.Namespace, case: cases.Case, sick: bool, switches: str, out: Path
) -> None:
    """Runs the service to its end."""
    port = cases.free_port()
    name, captures = f"zoo{port}", out / "captures"
    settings = {"slow": case.spec["slow"], "service": name, "out": str(captures)}
    env = {"DASHCAM_SWITCHES": switches, "ZOO_READY": str(out / "ready")}
    command = case.command(options.python, port, sick)
    if case.is_native:
        env |= {f"DASHCAM_{setting.upper()}": value for setting, value in settings.items()}
    else:
        flags = [word for setting, value in settings.items() for word in (f"--{setting}", value)]
        command = [options.dashcam, "run", *flags, "--", *command]
    env |= {f"DASHCAM_{setting.upper()}": value for setting, value in case.spec["settings"].items()}
    with open(out / "output", "w", encoding="utf-8") as errors:
        service = cases.start(command, case, port, errors, env)
        try:
            # For generated cases the number of slow answers is compared with the twin's.
            enough = captures if sick and not options.generated else None
            reported = cases.load(
                case,
                port,
                out / "load.json",
                seconds=options.seconds,
                enough=enough,
                ready=out / "ready",
            )
            if sick and reported.get("slow"):
                cases.captured(captures, AFTERMATH_S)
        finally:
            cases.end(service, hard=not sick)
    if not sick:
        recover(options, name, captures)


def recover(options: argparse.Namespace, service: str, captures: Path) -> None:
    """Makes captures of the black boxes that killed services left."""
    captures.mkdir(exist_ok=True)
    for box in Path("/dev/shm").glob(f"dashcam-*/{service}-*.box"):
        pid = box.name.split("-")[-2]
        deadline = time.monotonic() + 30  # a worker's parent died with it: init reaps it soon
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not Path(f"/proc/{pid}").exists():
            made = captures / f"recovered-{pid}.dashcam"
            with open(captures.parent / "output", "a", encoding="utf-8") as errors:
                cases.limited.run(
                    [options.dashcam, "recover", str(box), "-o", str(made)],
                    READ_S,
                    stdout=errors,
                    stderr=errors,
                )
            box.unlink(missing_ok=True)  # another dashcam may tidy up after the dead as well


def why(options: argparse.Namespace, subject: Path) -> dict[str, Any]:
    """The verdict on a capture, or on the newest of a folder; without causes if it is
    unreadable.
    """
    try:
        result = cases.limited.run(
            [options.dashcam, "why", str(subject), "--json"], READ_S, capture_output=True, text=True
        )
    except cases.limited.Late as late:
        return {"exit": -1, "broken": str(late)[-300:]}
    try:
        verdict: dict[str, Any] = {**json.loads(result.stdout), "exit": result.returncode}
        return verdict
    except json.JSONDecodeError:
        reported = (result.stderr or result.stdout).strip()[-300:]
        return {"exit": result.returncode, "broken": reported}


def plan(options: argparse.Namespace, possible: list[cases.Case]) -> list[tuple[cases.Case, bool, str]]:
    """The runs to make: case, sick or twin, switches."""
    modes = ["on", "off"] if options.switches == "both" else [options.switches]
    return [
        (case, sick, mode)
        for case in possible
        for mode in modes
        for sick in (True, False)
        if (case.has_sick or not sick) and options.twins != ("only" if sick else "no")
    ]


def score_one(
    options: argparse.Namespace,
    case: cases.Case,
    sick: bool,
    switches: str,
    ill: Optional[Outcome] = None,
) -> Outcome:
    """One program; again, up to --tries times, if --retry says so. The row names a second try. A
    twin is compared with the result of its sick program, if that ran."""
    judge = judge_sick if sick else judge_twin

    def once() -> Outcome:
        run = run_program(options, case, sick, switches)
        outcome = with_figures(options, case, judge(case, switches, run), run)
        if ill and ill.valid and score.slow_too(ill, outcome):
            outcome.valid = False
            outcome.note += f" slow too: {outcome.slow} answers, the sick one's {ill.slow}"
        return outcome

    outcome = once()
    # Stored captures do not change.
    for attempt in range(2, (1 if options.again else options.tries) + 1):
        if outcome.ok if options.retry == "failed" else outcome.valid or outcome.alarm:
            break
        first = f"{outcome.found}: {outcome.note}"
        outcome = once()
        outcome.tries = attempt
        outcome.note += f" (try {attempt}; before: {first[:200]})"
    return outcome


def with_figures(
    options: argparse.Namespace, case: cases.Case, outcome: Outcome, run: Run
) -> Outcome:
    """Fills in the other columns of the tables."""
    outcome.user = "root" if os.geteuid() == 0 else str(os.geteuid())
    outcome.cause = case.spec["cause"] or "healthy"
    outcome.slow = int(run.figures.get("slow", 0))
    outcome.slow_share = outcome.slow / max(run.figures.get("requests", 0), 1)
    outcome.why_s, outcome.busy = run.why_s, run.busy
    outcome.judge_failed = run.altered.pop("failed", "")
    if run.altered:
        wanted = wanted_places(case, "where") + wanted_places(case, "culprit")
        outcome.leaf_right = score.rule_right(run.altered["leaf"], wanted)
        outcome.off_cpu_right = score.rule_right(run.altered["off_cpu"], wanted)
        outcome.altered = {key: run.altered[key] for key in ("renamed", "thinned", "seeds")}
    return outcome


def main() -> int:
    """0 if every case and every twin is right, or, for a score, if its goals are reached; else 1; 2
    for wrong arguments."""
    options = arguments()
    chosen = cases.find(options.case, options.generated)
    wrong = f"no case matches {options.case!r}" if not chosen else locate(options)
    if wrong:
        print(f"zoo: {wrong}", file=sys.stderr)
        return 2
    possible = cases.possible(chosen)
    outcomes: list[Outcome] = []
    for case, sick, mode in plan(options, possible):
        last = outcomes[-1] if outcomes and not sick else None
        ill = last if last and (last.case, last.switches, last.twin) == (case.name, mode, "sick") else None
        outcome = score_one(options, case, sick, mode, ill)
        outcomes.append(outcome)
        print(
            f"{'ok  ' if outcome.ok else 'FAIL'} {outcome.case:26} {outcome.twin:7} "
            f"switches {outcome.switches:3}  {outcome.found:34} {outcome.note}",
            flush=True,
        )
    reached = True
    if options.scored and outcomes:
        reported, reached = score.report(outcomes)
        print(f"\n{reported}\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1), "utf-8")
    left_out = len(chosen) - len(possible)
    print(totals(outcomes) + (f", {left_out} cases left out" if left_out else ""))
    return 0 if (reached if options.scored else all(o.ok for o in outcomes)) else 1


if __name__ == "__main__":
    sys.exit(main())
