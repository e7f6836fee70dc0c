"""Recorders side by side, taken in turn (A B C, B C A ...), so that changes of the machine meet all
of them; prints tables, writes every figure to build/bench.json. See docs/overhead.md.

    python3 bench/run.py BINARY [--quick] [--only calls|churn|snapshot|metrics] [--rivals a,b]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import instructions
import programs
import tables
from programs import LttngSession, Program

# Rounds of each way: full, quick.
ROUNDS = {"calls": (7, 2), "churn": (3, 1), "snapshot": (3, 1), "metrics": (5, 1)}
# A program that takes longer is ended, and reported as skipped.
MOST_SECONDS = 120


def once(program: Program, out: Path, extra: "dict[str, str]") -> "dict[str, Any] | str":
    """Runs one program: its figures, or why there are none."""
    env = {**os.environ, **program.env, **extra, "BENCH_OUT": str(out)}
    try:
        done = subprocess.run(program.command, env=env, capture_output=True, text=True, check=False,
                              timeout=MOST_SECONDS, cwd=out)
    except subprocess.TimeoutExpired:
        return f"took longer than {MOST_SECONDS} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return f"ended with {done.returncode} and said: {said}"
    figures: "dict[str, Any]" = json.loads(lines[-1])
    return figures


def interleave(way: str, chosen: "list[Program]", rounds: int, out: Path, quick: bool) -> "dict[str, Any]":
    """Name -> figures of each round, and what was left out."""
    results: "dict[str, list[Any]]" = {p.name: [] for p in chosen}
    skipped: "dict[str, str]" = {}
    base = {"BENCH_QUICK": "1"} if quick else {}
    for turn in range(rounds):
        at = turn % len(chosen)
        for program in chosen[at:] + chosen[:at]:
            if program.name in skipped:
                continue
            if sys.stderr.isatty():
                print(f"\r\x1b[K{way} {turn + 1}/{rounds} {program.name}", end="", file=sys.stderr)
            with ExitStack() as stack:
                extra = dict(base)
                if quick:
                    extra["BENCH_CHURN_TURNS"] = "1"
                if program.name == "lttng":
                    extra.update(stack.enter_context(LttngSession(out)).env)
                figures = once(program, out, extra)
            if isinstance(figures, str):
                skipped[program.name] = figures
                figures = None
            results[program.name].append(figures)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    for name in skipped:
        results.pop(name, None)
    return {"results": results, "skipped": skipped}


def machine() -> "dict[str, Any]":
    """The machine of this run."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "?")
    cores = len(os.sched_getaffinity(0))
    return {"cpu": cpu, "cores": cores, "kernel": platform.release(), "load": os.getloadavg()[0]}


def main() -> int:
    """Builds the programs that can be built, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=programs.ALL_WAYS)
    parser.add_argument("--rivals", default="", help="names, with commas; dashcam and limits always run")
    given = parser.parse_args()
    begin = time.monotonic()
    build = programs.ROOT / "build"
    build.mkdir(exist_ok=True)
    # On the checkout's own disk: a temporary folder may be memory.
    out = Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    try:
        everything = programs.rust(given.binary.resolve())
        reported: "list[str]" = []
        for rival in (programs.lttng, programs.jfr, programs.go):
            found, why = rival(out)
            everything += found
            if why:
                reported.append(why)
        wanted = {*given.rivals.split(","), "dashcam", "limits", "plain", "dashcam-1GiB"}
        found_machine = machine()
        ways: "dict[str, Any]" = {}
        for way in programs.ALL_WAYS:
            chosen = [p for p in everything if way in p.ways]
            if given.quick:
                chosen = [p for p in chosen if p.name != "dashcam-1GiB"]
            if given.rivals:
                chosen = [p for p in chosen if p.name in wanted]
            if given.only in (None, way):
                rounds = ROUNDS[way][given.quick]
                ways[way] = interleave(way, chosen, rounds, out, given.quick)
                reported += [f"{way} of {n}: {why}" for n, why in ways[way]["skipped"].items()]
        counts = {} if given.only == "metrics" else instructions.count(given.binary.resolve(), out, given.quick)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    rows = tables.show(found_machine, ways, everything, counts)
    for line in reported:
        print(f"SKIPPED: {line}")
    seconds = time.monotonic() - begin
    print(f"{seconds:.0f} s; every figure of every round: build/bench.json")
    saved = {"machine": found_machine, "seconds": seconds, "ways": ways, "instructions": counts,
             "rows": rows, "skipped": reported}
    (build / "bench.json").write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
