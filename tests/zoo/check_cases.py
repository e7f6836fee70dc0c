#!/usr/bin/env python3
"""Checks, without dashcam, that the sick programs are sick and their twins are not.

Runs each program under its case's load and counts answers over the case's limit: a sick program
must have at least `min_slow` of them, rare, beside normal answers that are fast; its twin none. A
case that fails this proves nothing about a diagnosis. One failure is tried again: machines are
noisy.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import cases

NORMAL_MS = 20.0
RARE = 0.25


@dataclass
class Result:
    """The figures of one program."""

    case: str
    twin: str
    wrong: str
    figures: dict[str, float]
    tries: int = 1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="*", help="glob over the cases' names")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")
    parser.add_argument("--twins", choices=["yes", "no", "only"], default="yes")
    parser.add_argument("--times", type=int, default=1, help="run each so many times")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once (noisier)")
    return parser.parse_args()


def measure(case: cases.Case, python: str, sick: bool) -> tuple[dict[str, float], str]:
    """One run: the load generator's figures, and the errors of the service itself."""
    with tempfile.TemporaryDirectory(prefix="zoo-check-") as folder:
        port, log = cases.free_port(), Path(folder) / "output"
        with open(log, "w", encoding="utf-8") as errors:
            service = cases.start(case.command(python, port, sick, recorded=False), case, port, errors)
            try:
                figures = cases.load(case, port, Path(folder) / "load.json", warmup=0.5)
                died = service.poll()
            finally:
                clean = cases.end(service)
        if died is not None:
            return figures, f"ended by itself with {died}: {cases.tail(log)}"
        if not figures:
            return figures, f"answered nothing: {cases.tail(log)}"
        return figures, "" if clean else "did not end on SIGTERM"


def judge(case: cases.Case, sick: bool, figures: dict[str, float]) -> str:
    """The fault in these figures, "" if there is none."""
    if figures["errors"]:
        return f"{figures['errors']:g} errors"
    if figures["p50_ms"] > NORMAL_MS:
        return f"normal answers take {figures['p50_ms']} ms, wanted under {NORMAL_MS:g}"
    if sick and figures["slow"] < case.spec["min_slow"]:
        return (
            f"{figures['slow']:g} slow, wanted {case.spec['min_slow']}; max {figures['max_ms']} ms"
        )
    if sick and figures["slow"] > RARE * figures["requests"]:
        return f"{figures['slow']:g} of {figures['requests']:g} slow: not rare"
    if not sick and figures["slow"]:
        return f"{figures['slow']:g} slow in the twin; max {figures['max_ms']} ms"
    return ""


def paper(case: cases.Case, sick: bool) -> str:
    """A fault that is found before it runs: a place that is not in the source, or twins that differ
    too much.
    """
    if not sick or not (case.folder / "sick.py").exists():
        return ""
    places = [p for k in ("where", "culprit") for p in [case.spec[k], *case.spec[f"{k}_also"]] if p]
    for place in places:
        if wrong := absent(case, place):
            return wrong
    sick_lines, healthy_lines = (
        (case.folder / f"{name}.py").read_text("utf-8").splitlines() for name in ("sick", "healthy")
    )
    changed = [x for x in difflib.ndiff(sick_lines, healthy_lines) if x[0] in "+-"]
    return f"twins differ in {len(changed)} lines" if len(changed) > 20 else ""


def absent(case: cases.Case, place: dict[str, Any]) -> str:
    """Whether a place's function and line are missing in the case's folder."""
    found = next(iter(case.folder.rglob(place["file"])), None)
    if found is None:  # written by the program when it starts
        return ""
    text = found.read_text("utf-8")
    if not place["function"].startswith("<") and f"def {place['function']}(" not in text:
        return f"{place['file']} has no function {place['function']}"
    return (
        ""
        if place["line_text"] in text
        else f"{place['file']} has no line with {place['line_text']!r}"
    )


def check(case: cases.Case, python: str, sick: bool) -> Result:
    """One program, tried again once when it fails."""
    twin = "sick" if sick else "healthy"
    if wrong := paper(case, sick):
        return Result(case.name, twin, wrong, {})
    result: Optional[Result] = None
    for tries in (1, 2):
        figures, wrong = measure(case, python, sick)
        wrong = wrong or judge(case, sick, figures)
        result = Result(case.name, twin, wrong, figures, tries)
        if not wrong:
            break
    assert result is not None
    return result


def line(result: Result) -> str:
    """One row of the table."""
    f = result.figures
    shown = (
        f"{f['requests']:5g} answers  p50 {f['p50_ms']:7.2f}  max {f['max_ms']:8.1f} ms  "
        f"slow {f['slow']:4g}"
        if f
        else ""
    )
    again = " (second try)" if result.tries > 1 else ""
    verdict = "FAIL" if result.wrong else "ok  "
    return f"{verdict} {result.case:26} {result.twin:8} {shown}{again} {result.wrong}".rstrip()


def main() -> int:
    """0 if every program is as sick or healthy as it should be."""
    options = arguments()
    python = os.path.abspath(options.python)
    chosen = cases.find(options.case)
    if not chosen:
        print(f"check_cases: no case matches {options.case!r}", file=sys.stderr)
        return 2
    possible = cases.possible(chosen, recorded=False)
    steps = [
        (case, sick)
        for _ in range(options.times)
        for case in possible
        for sick in (True, False)
        if (case.has_sick or not sick)
        and options.twins != ("no" if not sick else "only")
    ]
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda step: check(step[0], python, step[1]), steps):
            wrong += bool(result.wrong)
            print(line(result), flush=True)
    print(f"check_cases: {len(steps) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
