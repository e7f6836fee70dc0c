"""Compares the verdict on a run with the case: for a sick program the first cause, its place and
its culprit; for a twin its silence."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import cases
import score

LINE_SLACK = 3
SEEN = 50


@dataclass
class Run:
    """What one program did under dashcam, and the verdicts on it."""

    figures: dict[str, float]
    output: str
    captures: list[Path]
    verdicts: list[dict[str, Any]]
    altered: dict[str, Any]
    why_s: float = 0.0
    busy: float = 0.0

    @property
    def verdict(self) -> dict[str, Any]:
        """The first verdict: for a sick program that on its newest capture."""
        return self.verdicts[0] if self.verdicts else {}


@dataclass
class Outcome:
    """One row of the table."""

    case: str
    twin: str
    switches: str
    ok: bool
    found: str
    note: str = ""
    cause_first: Optional[bool] = None
    cause_strict: Optional[bool] = None
    cause_in_three: Optional[bool] = None
    where_right: Optional[bool] = None
    culprit_right: Optional[bool] = None
    then_right: Optional[bool] = None
    line_right: Optional[bool] = None
    valid: bool = True
    user: str = ""
    cause: str = ""
    slow: int = 0
    slow_share: float = 0.0
    tries: int = 1
    left_out: str = ""
    confidence: str = ""
    alarm: bool = False
    leaf_right: Optional[bool] = None
    off_cpu_right: Optional[bool] = None
    altered: dict[str, Any] = field(default_factory=dict)
    judge_failed: str = ""
    why_s: float = 0.0
    busy: float = 0.0


def fits(found: Optional[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Whether a place of the verdict is one of the wanted functions and files."""
    return found is not None and any(
        found["function"] == place["function"] and os.path.basename(found["file"]) == place["file"]
        for place in wanted
    )


def wanted_places(case: cases.Case, sort: str) -> list[dict[str, Any]]:
    """The right places for `where` or `culprit`."""
    return [place for place in [case.spec[sort], *case.spec[f"{sort}_also"]] if place]


def line_fits(found: Optional[dict[str, Any]], wanted: list[dict[str, Any]]) -> Optional[bool]:
    """Whether the named line is at most a few from a line with the wanted text; None if unknown."""
    texts = [place["line_text"] for place in wanted if "line_text" in place]
    if not found or not texts or not os.path.exists(found["file"]):
        return None
    lines = Path(found["file"]).read_text("utf-8", "replace").splitlines()
    near = lines[max(0, found["line"] - 1 - LINE_SLACK) : found["line"] + LINE_SLACK]
    return any(text in line for text in texts for line in near)


def without_verdict(case: cases.Case, run: Run) -> Optional[tuple[bool, str, str]]:
    """Without a cause to judge: whether the run was valid, what was found, why it fails."""
    if not run.figures:
        return False, "no answers", run.output
    if run.figures["slow"] < case.spec["min_slow"]:
        return (
            False,
            "not sick",
            f"{run.figures['slow']:g} slow, wanted {case.spec['min_slow']}; "
            f"max {run.figures['max_ms']} ms",
        )
    if not run.captures:
        return True, "NO CAPTURE", run.output or "the service said nothing on stderr"
    if "causes" not in run.verdict:
        return True, "NO VERDICT", f"why exits {run.verdict['exit']}: {run.verdict['broken']}"
    if not run.verdict["causes"]:
        return True, "nothing", str(run.verdict.get("requests", ""))
    return None


def judge_sick(case: cases.Case, switches: str, run: Run) -> Outcome:
    """Compares a verdict with the case."""
    if (missing := without_verdict(case, run)) is not None:
        valid, found, note = missing
        return Outcome(
            case.name,
            "sick",
            switches,
            False,
            found,
            note,
            cause_first=False,
            cause_strict=False,
            then_right=False if case.spec["then"] else None,
            cause_in_three=False,
            valid=valid,
        )
    causes = run.verdict["causes"]
    right = [case.spec["cause"], *case.spec["accept"]]
    # If the machine is busy by its own figures, a lack of CPU is true, and proves nothing: the
    # other findings are judged.
    first = causes[0]["cause"]
    starved = run.busy >= score.BUSY and first == "cpu-starved" and first not in right
    if starved:
        causes = [cause for cause in causes if cause["cause"] != first] or causes
    top = causes[0]
    outcome = Outcome(
        case.name, "sick", switches, False, f"{top['cause']} {top['share']:.2f} {top['confidence']}"
    )
    outcome.cause_first = top["cause"] in right
    outcome.cause_strict = top["cause"] == case.spec["cause"]
    outcome.cause_in_three = any(cause["cause"] in right for cause in causes[:3])
    judge_places(case, top, outcome)
    lesser, shaken = causes[1:2], ""
    if case.spec["then"]:
        outcome.then_right, lesser, shaken = judge_second(case, run, causes)
    outcome.confidence = top["confidence"]
    if starved:
        outcome.valid = False
        outcome.found = f"busy machine: {outcome.found}"
    failed = [
        word
        for word, value in [
            ("cause", outcome.cause_first),
            ("where", outcome.where_right),
            ("culprit", outcome.culprit_right),
            ("second cause", outcome.then_right),
        ]
        if value is False
    ]
    outcome.ok = not failed
    shown = [shown_places(top), shaken]
    if case.spec["then"]:
        shown += [f"then {c['cause']} {c['share']:.2f}, {shown_places(c)}" for c in lesser]
    outcome.note = (f"WRONG {', '.join(failed)}; " if failed else "") + "; ".join(text for text in shown if text)
    return outcome


def judge_places(case: cases.Case, top: dict[str, Any], outcome: Outcome) -> None:
    """Fills in whether a cause's places are right."""
    where, culprit = wanted_places(case, "where"), wanted_places(case, "culprit")
    found, blamed = top.get("where"), top.get("culprit")
    if top["cause"] in case.spec["accept"] and (where or culprit):
        # Another accepted cause sees the same place from another side.
        outcome.where_right = fits(found, where + culprit) or fits(blamed, where + culprit)
    else:
        outcome.where_right = fits(found, where) if case.spec["where"] else None
        outcome.culprit_right = fits(blamed, culprit) if case.spec["culprit"] else None
        if outcome.switches == "off" and case.spec["culprit_by_switches"] and blamed is None:
            # A verdict without a culprit is right if nothing shows the culprit.
            outcome.culprit_right = None
    shown = blamed if fits(blamed, culprit) else found
    outcome.line_right = line_fits(shown, where + culprit)


def judge_second(
    case: cases.Case, run: Run, causes: list[dict[str, Any]]
) -> tuple[Optional[bool], list[dict[str, Any]], str]:
    """Whether the second defect comes next in the verdict, what does, and why it is not judged. If
    the machine is busy by its own figures, a lack of CPU is skipped; if that cost more than the
    second cause, the proportion is the machine's."""
    then = case.spec["then"]
    rest, starved = causes[1:], 0.0
    if run.busy >= score.BUSY:
        starved = max((c["share"] for c in causes if c["cause"] == "cpu-starved"), default=0.0)
        rest = [cause for cause in rest if cause["cause"] != "cpu-starved"]
    is_it = [c["cause"] == then["cause"] and fits(c.get("where"), [then["where"]]) for c in rest]
    found = max((c["share"] for c, yes in zip(rest, is_it) if yes), default=0.0)  # noqa: B905
    if is_it[:1] == [True] or starved <= found:
        return is_it[:1] == [True], rest[:1], ""
    return None, rest[:1], "busy machine: what comes second is not judged"


def shown_places(top: dict[str, Any]) -> str:
    """The verdict's places, in short."""
    return "; ".join(
        f"{key}: {os.path.basename(top[key]['file'])}:{top[key]['line']} {top[key]['function']}"
        for key in ("where", "culprit")
        if top.get(key)
    )


def judge_twin(case: cases.Case, switches: str, run: Run) -> Outcome:
    """A twin must have been recorded at work, and must not be blamed, in any of its captures."""

    def outcome(ok: bool, found: str, note: str = "", valid: bool = True) -> Outcome:
        return Outcome(case.name, "healthy", switches, ok, found, note, valid=valid)

    if not run.figures:
        return outcome(False, "no answers", run.output, valid=False)
    for verdict in run.verdicts:
        if "causes" not in verdict:
            return outcome(False, "NO VERDICT", f"why exits {verdict['exit']}: {verdict['broken']}")
    causes = [cause for verdict in run.verdicts for cause in verdict["causes"]]
    if causes and run.busy >= score.BUSY and all(map(starves, run.verdicts)):
        return outcome(True, "busy machine: no cause but a want of CPU", valid=False)
    if causes:
        blamed = ", ".join(f"{c['cause']} {c['share']:.2f}" for c in causes)
        found = outcome(False, blamed, f"max {run.figures['max_ms']} ms; {shown_places(causes[0])}")
        # Slow answers of a busy machine are the machine's: such a run proves nothing.
        found.valid = found.alarm = not run.figures["slow"] or run.busy < score.BUSY
        return found
    if any(verdict["exit"] != 1 for verdict in run.verdicts):
        return outcome(False, "no cause", "why does not exit 1")
    # Silence proves something only if dashcam recorded the requests.
    seen = sum(verdict["requests"]["total"] for verdict in run.verdicts)
    if seen < SEEN:
        return outcome(False, f"only {seen} requests seen", run.output, valid=False)
    return outcome(True, f"nothing, in {seen} requests")


def starves(verdict: dict[str, Any]) -> bool:
    """Whether a verdict blames nothing, or blames the machine for most of it."""
    causes = verdict["causes"]
    return not causes or (causes[0]["cause"] == "cpu-starved" and causes[0]["share"] > 0.5)


def totals(outcomes: list[Outcome]) -> str:
    """For each part of the answer, how many verdicts were right."""

    def count(name: str) -> str:
        known = [getattr(o, name) for o in outcomes if getattr(o, name) is not None]
        return f"{sum(known)}/{len(known)}"

    twins = [o.ok for o in outcomes if o.twin == "healthy"]
    right = sum(o.ok for o in outcomes)
    return (
        f"cause first {count('cause_first')}, among three {count('cause_in_three')}, "
        f"where {count('where_right')}, culprit {count('culprit_right')}, "
        f"line {count('line_right')}, second cause {count('then_right')}, "
        f"twins silent {sum(twins)}/{len(twins)}\n"
        f"zoo: {right} passed, {len(outcomes) - right} failed"
    )
