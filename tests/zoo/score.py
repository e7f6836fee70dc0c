"""The zoo's tables: for each cause how often the verdict was right, beside two simple rules on the
same captures, and how often "confirmed", "likely" and "possible" are right.

A sick run counts if its spike was measurable (the load generator saw enough slow answers), was not
the machine's (a verdict of cpu-starved on a machine whose own pressure figures agree proves nothing
about another cause), and, where twins are run, its twin gave a valid run without the spike. Runs
that do not count are listed, with the reason. Of the others the first verdict counts: only runs
that are not valid are made again.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Iterable, Optional

# A machine on which tasks waited for a CPU for this part of the time starves services.
BUSY = 0.25
# The share of slow answers of the twin may be this part of the sick program's: machines pause.
GONE = 0.34
SEEDS = 3
# The goals. If one record in a hundred is lost, the proof of a verdict may be among the lost ones.
TOP_1, WHERE, WHY_S, COUNTED, THINNED = 0.95, 0.90, 2.0, 0.8, 0.01
JUDGE_S = 600


class Pressure:
    """For how much of an interval some task of the machine waited for a CPU (PSI)."""

    def __init__(self) -> None:
        self.begin, self.waited = time.monotonic(), self._waited()

    @staticmethod
    def _waited() -> float:
        try:
            first = Path("/proc/pressure/cpu").read_text("ascii").splitlines()[0]
            return float(first.rpartition("total=")[2]) / 1e6
        except (OSError, ValueError, IndexError):
            return 0.0

    def share(self) -> float:
        """Since it was made: 0 to 1."""
        took = max(time.monotonic() - self.begin, 1e-3)
        return round((self._waited() - self.waited) / took, 3)


def judged(judge: Optional[Path], capture: Path, slow_ms: float, seeds: int = SEEDS) -> dict[str, Any]:
    """The simple rules' results for a capture, and whether its verdict remains when names change or
    records are lost; {} without the tool for it, and {"failed": why} if it failed."""
    if not judge:
        return {}
    try:
        reported = subprocess.run(
            [str(judge), str(capture), str(slow_ms), str(seeds)],
            capture_output=True,
            text=True,
            timeout=JUDGE_S,
            check=False,
        )
        if reported.returncode == 0:
            return dict(json.loads(reported.stdout))
        why = f"exit {reported.returncode}: {reported.stderr.strip()[-200:]}"
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        why = str(error)[-200:]
    return {"failed": why}


def rule_right(places: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> Optional[bool]:
    """Whether the first place of a simple rule is right; None if no place is judged."""
    if not wanted:
        return None
    first = places[:1]
    return any(
        p["function"] == w["function"] and os.path.basename(p["file"]) == w["file"]
        for p in first
        for w in wanted
    )


def slow_too(sick: Any, twin: Any) -> bool:
    """Whether a twin shows the sick program's spike."""
    return bool(twin.slow_share > GONE * sick.slow_share)


def counted(outcomes: list[Any]) -> list[Any]:
    """The sick runs that count; the others get the reason why they do not."""
    twins = {(o.case, o.switches, o.user): o for o in outcomes if o.twin == "healthy"}
    sick = [o for o in outcomes if o.twin == "sick"]
    for o in sick:
        twin = twins.get((o.case, o.switches, o.user))
        if not o.valid:
            o.left_out = o.found
        elif twins and twin is None:
            o.left_out = "no twin ran"
        elif twin and not twin.valid:
            o.left_out = f"its twin proves nothing: {twin.found} {twin.note}".rstrip()
    return [o for o in sick if not o.left_out]


def part(values: Iterable[Optional[bool]]) -> str:
    """`11/12` of those that are known."""
    known = [v for v in values if v is not None]
    return f"{sum(known)}/{len(known)}" if known else "-"


def report(outcomes: list[Any]) -> tuple[str, bool]:
    """Everything as text: a table for each way of running, calibration, robustness, what was left
    out, the goals; and whether all goals are reached."""
    sick = counted(outcomes)
    ways = sorted({(o.switches, o.user) for o in outcomes})
    parts = [table(way, [o for o in outcomes if (o.switches, o.user) == way], sick) for way in ways]
    failed = [f"  {o.case} {o.switches}: {o.judge_failed}" for o in outcomes if o.judge_failed]
    parts += [calibration(sick), robustness(sick), asides(outcomes)]
    parts += ["\n".join(["the judge failed:", *failed])] if failed else []
    reached = goals(outcomes, sick)
    lines = [f"goal: {name:52} {'reached' if ok else 'NOT REACHED':12} {reported}" for name, ok, reported in reached]
    parts.append("\n".join(lines))
    return "\n\n".join(part for part in parts if part), all(ok for _, ok, _ in reached)


def goals(outcomes: list[Any], sick: list[Any]) -> list[tuple[str, bool, str]]:
    """The goals of a score, whether each is reached, and the figure of each way of running. None if
    not judged. Each way must reach a goal by itself."""
    ways = sorted({(o.switches, o.user) for o in outcomes})

    def share(name: str, least: float, reported: str) -> tuple[str, bool, str]:
        found = {way: shares(getattr(o, name) for o in sick if (o.switches, o.user) == way) for way in ways}
        known = {way: figure for way, figure in found.items() if figure is not None}
        figures = ", ".join(f"switches {way[0]} {100 * figure:.0f} %" for way, figure in known.items())
        reached = all(figure >= least for figure in known.values())
        return f"{reported} {100 * least:.0f} % or more", reached, figures or "nothing judged"

    alarms = [o for o in outcomes if o.twin == "healthy" and (o.valid or o.alarm) and not o.ok]
    slowest = max(outcomes, key=lambda o: o.why_s)
    tried, broken = sum(o.twin == "sick" for o in outcomes), [o for o in outcomes if o.judge_failed]
    altered = [o for o in sick if o.altered]
    renamed = sum(bool(o.altered["renamed"]) for o in altered)
    thinned = sum(len(o.altered["thinned"]) for o in altered)
    lost = sum(o.altered["seeds"] for o in altered)
    return [
        share("cause_strict", TOP_1, "the case's own cause first in"),
        share("where_right", WHERE, "the right place in"),
        share("then_right", WHERE, "the lesser of two causes next in"),
        ("false alarms: none", not alarms, str(len(alarms))),
        (f"longest diagnosis under {WHY_S:g} s", slowest.why_s < WHY_S, f"{slowest.why_s:g} s, {slowest.case}"),
        (
            f"sick runs that count: {100 * COUNTED:.0f} % or more",
            len(sick) >= COUNTED * tried,
            f"{len(sick)} of {tried}",
        ),
        ("verdicts that other names change: none", not renamed, f"{renamed} of {len(altered)}" if altered else "not tried"),
        (
            f"verdicts that 1 % fewer records change: {100 * THINNED:.0f} % or less",
            thinned <= THINNED * lost,
            f"{thinned} of {lost}" if altered else "not tried",
        ),
        ("captures the judge could not judge: none", not broken, str(len(broken))),
    ]


def shares(values: Iterable[Optional[bool]]) -> Optional[float]:
    """How many of the known ones are right; None if none is known."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def asides(outcomes: list[Any]) -> str:
    """The sick runs that were left out, with the reasons, and how many runs were made again."""
    left = [f"  {o.case} {o.switches}: {o.left_out[:200]}" for o in outcomes if o.left_out]
    again = sum(o.tries > 1 for o in outcomes)
    lines = [f"left out: {len(left)} sick runs; run again, since they proved nothing: {again} of {len(outcomes)}"]
    return "\n".join([*lines, *left])


def table(way: tuple[str, str], outcomes: list[Any], sick: list[Any]) -> str:
    """One way of running: a row for each cause. `strict` accepts only the case's own cause, `top-1`
    those of `accept` too."""
    own = [o for o in sick if (o.switches, o.user) == way]
    left_out = sum(o.twin == "sick" for o in outcomes) - len(own)
    head = (
        f"switches {way[0]}, user {way[1]}: {len(own)} sick runs counted, {left_out} left out\n"
        f"{'cause':20} {'n':>3} {'top-1':>7} {'strict':>7} {'top-3':>7} {'where':>7} {'culprit':>7} "
        f"{'leaf':>7} {'off-cpu':>7} {'false alarms':>13} {'seconds':>8}"
    )
    rows = []
    for cause in [*sorted({o.cause for o in own}), "all"]:
        of = [o for o in own if cause in (o.cause, "all")]
        twins = [o for o in outcomes if o.twin == "healthy" and cause in (o.cause, "all")]
        alarms = [not o.ok for o in twins if o.valid or o.alarm]
        slowest = max((o.why_s for o in of), default=0.0)
        rows.append(
            f"{cause:20} {len(of):3} {part(o.cause_first for o in of):>7} "
            f"{part(o.cause_strict for o in of):>7} {part(o.cause_in_three for o in of):>7} "
            f"{part(o.where_right for o in of):>7} {part(o.culprit_right for o in of):>7} "
            f"{part(o.leaf_right for o in of):>7} {part(o.off_cpu_right for o in of):>7} {part(alarms):>13} {slowest:8.2f}"
        )
    return "\n".join([head, *rows])


def calibration(sick: list[Any]) -> str:
    """For each confidence, how many of its first findings were right in cause and place."""
    lines = ["how sure the first finding was, and how often it was right (cause, where and culprit):"]
    for word in ("confirmed", "likely", "possible"):
        own = [
            bool(o.cause_first) and o.where_right is not False and o.culprit_right is not False
            for o in sick
            if o.confidence == word
        ]
        share = f"{100 * sum(own) / len(own):.0f} %" if own else "-"
        lines.append(f"  {word:10} {sum(own):3} of {len(own):3}  {share}")
    silent = [o for o in sick if not o.confidence]
    return "\n".join([*lines, f"  no finding {len(silent):3}"])


def robustness(sick: list[Any]) -> str:
    """Whether verdicts remained when names were changed and one record in a hundred was lost."""
    known = [o for o in sick if o.altered]
    if not known:
        return "renaming, losing records: not tried (needs the judge: see --judge)"
    renamed = [o for o in known if o.altered["renamed"]]
    lost = sum(o.altered["seeds"] for o in known)
    other = [(o, one) for o in known for one in o.altered["thinned"]]
    lines = [
        f"other names: another verdict on {len(renamed)} of {len(known)} captures; "
        f"1 % of the records lost: on {len(other)} of {lost}"
    ]
    lines += [f"  {o.case} {o.switches}: renamed: {o.altered['renamed']}" for o in renamed]
    lines += [f"  {o.case} {o.switches}: seed {x['seed']}: {x['was']} -> {x['is']}" for o, x in other]
    return "\n".join(lines)
