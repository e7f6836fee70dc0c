"""`fleet diff --watch`: asked again and again, a release that changed nothing is not reported."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import rollouts  # noqa: E402
from dashcam._fleet import command, watching  # noqa: E402
from dashcam._fleet.ask import statistics  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.rows import schema  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import BEGIN, Cause, Drawn  # noqa: E402

OLD, NEW = {"version": "1.0"}, {"version": "2.0"}
# Every half an hour.
ASKS, EVERY = 50, 3
WORDS = ["diff", "SRC", "--before", "version=1.0", "--after", "version=2.0", "--watch"]


@pytest.mark.parametrize("seed", range(3))
def test_fifty_questions_report_nothing_where_nothing_changed(seed: int) -> None:
    assert rollouts.found(rollouts.drawn(seed, burst=3.0), ASKS, EVERY) is None


@pytest.mark.parametrize(("seed", "is_counted"), [(0, False), (1, True)])
def test_three_times_as_many_incidents_are_found_within_half_a_day(seed: int, is_counted: bool) -> None:
    found = rollouts.found(rollouts.drawn(seed, grown=3.0, is_counted=is_counted), ASKS, EVERY)
    assert found is not None and found[1] == [rollouts.GROWN] and found[0] <= 12 * rollouts.HOUR


def test_judgements_are_at_fixed_lengths_and_share_what_is_allowed() -> None:
    times = [statistics.judgement_s(number) for number in range(1, 30)]
    assert [statistics.judgements(when) for when in times] == list(range(1, 30))
    assert [statistics.judgements(when - 1) for when in times] == list(range(29))
    assert sum(statistics.part_of_judgement(number) for number in range(1, 100_000)) == pytest.approx(1.0, abs=1e-4)


def test_small_chances_differ_where_less_is_allowed() -> None:
    units = [statistics.Unit(f"h{nth}", nth < 20) for nth in range(60)]
    counts = np.zeros((60, 2))
    counts[:20] = 3, 1
    counts[20:30] = 1
    coarse, fine = (statistics.compare(units, counts, "billy", finely=finely) for finely in (False, True))
    assert coarse[0].p_worse == 1 / (statistics.PERMUTATIONS + 1)
    assert fine[0].p_worse == 1 / (statistics.PERMUTATIONS_MAX + 1)
    assert fine[0].ratio == coarse[0].ratio


def fleet(folder: Path, until_h: float, grown: float = 1.0) -> Fleet:
    """What is known so long after half of 24 hosts got version 2.0, on the third day."""
    causes = [Cause("refresh", 1, 6.0), Cause("fetch", 1, 6.0, kind="cpu")]
    if grown > 1:
        causes.append(Cause("fetch", 1, 6.0 * (grown - 1), versions=("2.0",), kind="cpu"))
    now = BEGIN + datetime.timedelta(days=2, hours=until_h)
    rows = Drawn(3, 24, 3, causes, versions=lambda host, day: "2.0" if host < 12 and day >= 2 else "1.0").rows
    store.write(folder, {name: pa.Table.from_pylist([row for row in own if row["captured_utc"] < now],
                                                    schema=schema.arrow(schema.named(name), folders=True)) for name, own in rows.items()})
    return Fleet(folder, now=now)


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def watched(tmp_path: Path, hours: list[float], grown: float, *, as_json: bool = False, length: str | None = None) -> tuple[watching.Outcome, str, Clock]:
    """The answer, what was printed, and the clock."""
    clock, out, left = Clock(), io.StringIO(), iter(hours)

    def opened() -> Fleet:
        hour = next(left)
        if hour < 0:
            raise OSError("files are being removed")
        return fleet(tmp_path / f"{hour}", hour, grown)

    what = watching.rollout(OLD, NEW, None, "30m", length)
    return watching.watch(opened, what, as_json=as_json, out=out, clock=lambda: clock.now_s, sleep=clock.sleep), out.getvalue(), clock


def test_it_ends_with_the_first_regression(tmp_path: Path) -> None:
    found, text, clock = watched(tmp_path, [0.01, -1, 10, 99], 5.0)
    first, last = (line for line in text.splitlines() if line.startswith("2025-11-26"))
    assert found is watching.Outcome.FOUND and clock.now_s == 3600, "two pauses; one question failed"
    assert first.endswith("nothing to compare yet") or first.endswith("nothing judged yet"), first
    assert last.startswith("2025-11-26 10:00 UTC: before") and "worse: billy  cpu  app.py fetch()  fetch" in text


def test_it_ends_in_time_if_nothing_was_found(tmp_path: Path) -> None:
    found, text, clock = watched(tmp_path, [5.0, 9.0, 99], 1.0, as_json=True, length="50m")
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert found is watching.Outcome.FINE and clock.now_s == 1800
    assert [line["found"] for line in lines] == [False, False] and lines[0]["asked_utc"] == "2025-11-26T05:00:00"
    nearest = lines[1]["nearest"]
    assert nearest["p_anytime"] > nearest["p_wanted"] and lines[1]["compared"][0]["judgement"] > lines[0]["compared"][0]["judgement"]


@pytest.mark.parametrize("wrong", [["--at", "2025-11-25"], ["--every", "1s"], ["--every", "soon"], ["--for", "long"]])
def test_wrong_words_are_usage_errors(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*WORDS, *wrong]) == 2
    assert "wanted" in capsys.readouterr().err


def test_a_source_that_cannot_be_read_at_first_is_an_error(tmp_path: Path) -> None:
    assert command.main(["diff", str(tmp_path / "none"), *WORDS[2:]]) == 3
