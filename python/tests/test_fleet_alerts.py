"""`dashcam fleet why --alert`: what is new or worse, each once."""

from __future__ import annotations

import datetime
import fcntl
import json
from pathlib import Path

import pytest

pytest.importorskip("ibis")

from dashcam._fleet import command  # noqa: E402
from dashcam._fleet.ask import alerting  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import BEGIN, Cause, Drawn  # noqa: E402


NOTHING_YET = '{"schema": 1, "causes": {}}'


class Watched:
    """A fleet whose news a command writes into a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, folder / "said"
        self.drawn = Drawn(1, 1, 1, [])

    def plant(self, name: str, day: float = 0.5) -> None:
        self.drawn.plant(name, [1.0], day=day, first_request=len(self.drawn.rows["requests"]))

    def run(self, command_: str = "", *more: str) -> int:
        tables = self.folder / f"fleet-{len(self.drawn.rows['captures'])}"
        if not tables.exists():
            store.write(tables, self.drawn.tables())
        own = command_ or f"cat >> {self.said}"
        return command.main(["why", str(tables), "--alert", own, "--state", str(self.folder / "state.json"), *more])

    def news(self) -> str:
        text = self.said.read_text("utf-8") if self.said.exists() else ""
        self.said.unlink(missing_ok=True)
        return text


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_the_first_run_remembers_and_reports_none(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watched.plant("refresh")
    assert watched.run() == 0 and watched.news() == ""
    assert "The first time: 1 cause remembered" in capsys.readouterr().out
    assert watched.run() == 0 and watched.news() == ""
    assert capsys.readouterr().out == "Nothing new, nothing worse; 1 cause.\n"


def test_a_new_cause_is_reported(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watched.plant("refresh")
    assert watched.run() == 0
    capsys.readouterr()
    watched.plant("resize", day=0.6)
    assert watched.run() == 1
    said = watched.news()
    assert said.startswith("new: billy  lock-wait  app.py resize(): ") and "refresh" not in said
    assert capsys.readouterr().out == said


def test_a_command_that_fails_is_run_again(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    (watched.folder / "state.json").write_text(NOTHING_YET)
    watched.plant("refresh")
    assert watched.run("exit 7") == 3
    assert "ended with exit code 7, wanted 0; it is run again the next time" in capsys.readouterr().err
    assert watched.run("", "--json") == 1
    [new] = json.loads(watched.news())["new"]
    assert new["fingerprint"] == "refresh"


def test_what_was_reported_is_not_again(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    (watched.folder / "state.json").write_text(NOTHING_YET)
    watched.plant("refresh")
    assert watched.run() == 1 and "refresh()" in watched.news()
    capsys.readouterr()
    assert watched.run() == 0 and watched.news() == ""
    assert capsys.readouterr().out == "Nothing new, nothing worse; 1 cause.\n"


@pytest.mark.parametrize("wrong", ["", "[]", '{"schema": 2}', '{"schema": 1, "causes": {"a": 1}}', "\x00"])
def test_a_state_of_another_form_is_an_error_and_stays(watched: Watched, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    state = watched.folder / "state.json"
    state.write_text(wrong)
    watched.plant("refresh")
    assert watched.run() == 3
    assert "wanted a state of --alert, or no file" in capsys.readouterr().err
    assert state.read_text() == wrong and watched.news() == ""


def test_two_runs_at_once_are_refused(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watched.plant("refresh")
    with open(watched.folder / "state.json.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert watched.run() == 3
    assert "another run of --alert has it" in capsys.readouterr().err
    assert watched.run() == 0


def test_what_became_worse_is_reported_once_until_it_is_not(tmp_path: Path) -> None:
    causes = [Cause("refresh", 1.0, 1.0), Cause("refresh", 1.0, 8.0, days=(2.0, 4.0))]
    store.write(tmp_path / "fleet", Drawn(3, 24, 4, causes).tables())
    fleet = Fleet(tmp_path / "fleet", now=BEGIN + datetime.timedelta(days=4))
    worse, there = fleet.worse("48h"), fleet.why(top=1).causes
    assert [row["fingerprint"] for row in worse] == ["refresh"]
    state = alerting.State(tmp_path / "state.json")
    state.causes = {}
    state.remember(there, [], fleet.now)
    reported = []
    for now_worse in (worse, worse, [], worse):
        again = alerting.State(state.path)
        again.read()
        news = again.news(there, now_worse, fleet.now)
        assert not news.new
        reported.append(len(news.worse))
        again.remember(there, now_worse, fleet.now)
        if news.worse:
            assert news.text.startswith("worse: billy  lock-wait  app.py refresh()") and " times the incidents of a host" in news.text
    assert reported == [1, 0, 0, 1]


def test_a_cause_that_was_long_away_is_new_again(tmp_path: Path) -> None:
    row = {"service": "billy", "fingerprint": "refresh", "share": 1.0}
    state = alerting.State(tmp_path / "state.json")
    state.causes = {alerting.key(row): {"last_utc": BEGIN.isoformat(), "is_worse": False}}
    for days, new in ((alerting.FORGET_DAYS, 0), (alerting.FORGET_DAYS + 1, 1)):
        assert len(state.news([row], [], BEGIN + datetime.timedelta(days=days)).new) == new
