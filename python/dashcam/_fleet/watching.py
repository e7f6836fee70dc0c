"""`dashcam fleet diff --watch`: the same question again and again while a release rolls out.

How it works: each time, the fleet is opened anew, so that new captures count, and `diff` is asked
with `anytime`. A line a time says what is known; the first answer with something worse or new ends
it, and is printed whole.

What it promises: false regressions stay as rare as those of one question, however often it is asked
(`statistics.part_of_judgement`). Nothing is kept between two questions: it may be ended and begun again. A
source that cannot be read now (files are being removed) is asked again the next time.
"""

from __future__ import annotations

import datetime
import enum
import json
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from dashcam import sql
from dashcam._fleet.ask import answers, wording
from dashcam._fleet.fleet import Fleet, seconds
from dashcam.reading import CaptureError

# A shorter pause would only cost CPU: incidents are ten minutes long.
EVERY_S_MIN = 5.0


class Outcome(enum.Enum):
    """How a watch ended."""

    FOUND = enum.auto()
    """Something is worse or new."""
    FINE = enum.auto()
    """The time is over, and nothing was."""
    UNCOMPARED = enum.auto()
    """The time is over, and nothing is known of one side: a wrong version, or a release that was not recorded."""


class Rollout(NamedTuple):
    """What is asked, and how often."""

    before: dict[str, str]
    after: dict[str, str]
    every_s: float
    length_s: float | None
    """How long it is watched; None: without an end."""


def rollout(before: dict[str, str], after: dict[str, str], at: str | None, every: str, length: str | None) -> Rollout:
    """What the words of the command mean. Raises ValueError."""
    if at is not None or not before or not after:
        raise ValueError("--watch: wanted --before and --after, as `--before version=4.1 --after version=4.2`, and no --at")
    every_s = seconds(every, "every")
    if every_s < EVERY_S_MIN:
        raise ValueError(f"every: found {every!r}, wanted {EVERY_S_MIN:.0f}s or more")
    return Rollout(before, after, every_s, None if length is None else seconds(length, "for"))


def watch(
    opened: Callable[[], Fleet], what: Rollout, *, as_json: bool, out: TextIO,
    clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Asks until something is worse or new, or the time is over. Raises ValueError for a wrong side;
    CaptureError and OSError if the first question fails."""
    begun = clock()
    times = 0
    outcome = Outcome.UNCOMPARED
    while True:
        try:
            outcome = _ask(opened, what, as_json, out)
        except (CaptureError, OSError) as error:
            if not times:
                raise
            sql.say(f"fleet: {error}; asked again in {what.every_s:.0f} s")
        times += 1
        if outcome is Outcome.FOUND:
            return outcome
        # From the first question, not from the last answer: questions take time, too.
        pause = begun + times * what.every_s - clock()
        if what.length_s is not None and clock() - begun + max(0.0, pause) > what.length_s:
            return outcome
        sleep(max(0.0, pause))


def _ask(opened: Callable[[], Fleet], what: Rollout, as_json: bool, out: TextIO) -> Outcome:
    with opened() as fleet:
        answer = fleet.diff(what.before, what.after, anytime=True)
        at: datetime.datetime = fleet.now
    found = bool(answer.found("worse", "new"))
    if as_json:
        line = answers.whole({"asked_utc": at, "found": found}) | answer.json()
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
    else:
        out.write(wording.watched(at, answer.sides, answer.differences, answer.nearest) + (answer.text if found else ""))
    out.flush()
    if found:
        return Outcome.FOUND
    return Outcome.FINE if answer.is_compared else Outcome.UNCOMPARED
