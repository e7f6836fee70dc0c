"""`dashcam.fleet(...)`: causes of a fleet whose truth is known, each captured request once."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from dashcam._fleet.tables import duck, store  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from fleets import BEGIN, Cause, Drawn  # noqa: E402

import dashcam  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

CAUSES = [
    Cause("refresh", 3.0, 0.8),
    Cause("resize", 1.0, 1.2, kind="cpu"),
    Cause("fetch", 1.0, 1.5, versions=("2.0",), kind="downstream-wait"),
    Cause("odd", 2.0, 1.0, hosts=(20, 21, 22), kind="sleep"),
    # Another service has a function of the same name.
    Cause("refresh", 0.8, 0.5, service="shop"),
]


def version(host: int, day: float) -> str:
    """Twelve hosts get version 2.0 after two days."""
    return "2.0" if host < 12 and day >= 2 else "1.0"


class Planted:
    """A fleet of 30 hosts and four days."""

    def __init__(self, folder: Path) -> None:
        self.drawn = Drawn(5, 30, 4, CAUSES, versions=version)
        self.drawn.healthy(29, 3.9, "0.9")
        store.write(folder, self.drawn.tables())
        self.folder = folder
        self.fleet = dashcam.fleet(folder)
        self.why = self.fleet.why()

    def cause(self, name: str, service: str = "billy") -> dict[str, Any]:
        """What is answered of a cause."""
        [row] = [row for row in self.why.causes if (row["service"], row["fingerprint"]) == (service, name)]
        return row


    def hosts(self, *services: str) -> int:
        """How many hosts of these services have a capture."""
        return len({row["host"] for row in self.drawn.rows["captures"] if row["service"] in services})


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The fleet, drawn once."""
    return Planted(tmp_path_factory.mktemp("fleet"))


def test_causes_are_ranked_by_their_excess(planted: Planted) -> None:
    truth = sorted(planted.drawn.truth.items(), key=lambda item: -item[1])
    assert [(row["service"], row["fingerprint"]) for row in planted.why.causes] == [key for key, _ in truth]
    assert [row["excess_ns"] for row in planted.why.causes] == pytest.approx([excess for _, excess in truth])
    total = sum(row["excess_ns"] for row in planted.drawn.rows["captures"])
    assert planted.why.totals["excess_ns"] == pytest.approx(total)
    shares = [row["share"] for row in planted.why.causes]
    assert sum(shares) + planted.why.totals["unexplained_share"] == pytest.approx(1.0)
    assert planted.why.totals["unexplained_share"] == pytest.approx(0.05, abs=1e-6)
    for row in planted.why.causes:
        low, high = row["share_95"]
        assert low <= row["share"] <= high


def test_a_cause_names_the_hosts_versions_times_and_the_worst_capture(planted: Planted) -> None:
    fetch, odd = planted.cause("fetch"), planted.cause("odd")
    assert [one["version"] for one in fetch["versions"]] == ["2.0"]
    assert [one["version"] for one in fetch["versions_without"]] == ["1.0", "0.9"]
    assert fetch["first_utc"] >= BEGIN + datetime.timedelta(days=2)
    assert (odd["hosts"], odd["hosts_of_service"]) == (3, planted.hosts("billy"))
    own = [row for row in planted.drawn.rows["findings"] if (row["service"], row["fingerprint"]) == ("billy", "fetch")]
    worst = max(own, key=lambda row: row["excess_ns"])
    assert fetch["worst"]["capture_id"] == worst["capture_id"]
    assert fetch["worst"]["path"].startswith(str(planted.folder.parent)) or fetch["worst"]["path"].startswith(str(planted.folder))
    assert fetch["captures"] == len(own) == fetch["confirmed"]


def test_the_text_says_of_what_the_shares_are(planted: Planted) -> None:
    lines = planted.why.text.splitlines()
    assert lines[0].startswith(f"2 services, {planted.hosts('billy', 'shop')} hosts, 3 versions; ")
    assert "captured slow requests with" in lines[1]
    assert any(line.startswith("1. billy  lock-wait  app.py refresh(): ") for line in lines)
    assert any("only version 2.0; not in 1.0" in line for line in lines)
    assert "Unexplained: 5 % of the excess." in lines
    assert lines[-1].startswith("Nothing can be said of requests that are in no capture")
    found = json.loads(json.dumps(planted.why.json()))
    assert found["of"].startswith("the slow requests that were captured") and len(found["groups"]) == 5


def test_the_same_question_has_the_same_answer(planted: Planted) -> None:
    again = dashcam.fleet(planted.folder).why()
    assert again.json() == planted.why.json()


def test_a_request_that_is_in_two_captures_counts_once(tmp_path: Path) -> None:
    drawn = Drawn(1, 1, 1, [], unexplained=0.0)
    drawn.plant("nap", [2.0, 1.0], begin_day=0.4)
    # A later capture of the process has both requests and a third; one of them ran on.
    drawn.plant("nap", [5.0, 1.0, 4.0], day=0.6, begin_day=0.4)
    # The next one has another request only.
    drawn.plant("nap", [3.0], day=0.7, first_request=3)
    store.write(tmp_path, drawn.tables())
    answer = dashcam.fleet(tmp_path).why()
    assert answer.totals["slow_requests"] == 4
    assert answer.totals["excess_ns"] == pytest.approx(13e9)
    [cause] = answer.causes
    assert cause["excess_ns"] == pytest.approx(13e9) and cause["captures"] == 3


def test_a_few_hosts_have_no_interval(tmp_path: Path) -> None:
    drawn = Drawn(1, 4, 2, [Cause("nap", 1, 2.0)])
    store.write(tmp_path, drawn.tables())
    [cause] = dashcam.fleet(tmp_path).why().causes
    assert cause["share_95"] is None


@pytest.mark.parametrize(("by", "first"), [("service", "billy"), ("version", "1.0"), ("cause", "lock-wait"), ("request", "GET /")])
def test_groups_by_another_column(planted: Planted, by: str, first: str) -> None:
    answer = planted.fleet.why(by=by)
    assert answer.groups[0][by] == first
    named = planted.why.totals["excess_ns"] - planted.why.totals["unexplained_ns"]
    assert sum(row["excess_ns"] for row in answer.groups) == pytest.approx(named)
    with pytest.raises(ValueError, match="wanted one of service, version"):
        planted.fleet.why(by="colour")


def test_a_trend_shows_days_without_a_capture_as_unknown(planted: Planted) -> None:
    trend = planted.fleet.trend()
    fetch = next(cause for cause in trend.causes if cause["fingerprint"] == "fetch")
    excess = [bucket["excess_ns"] for bucket in fetch["buckets"]]
    assert len(excess) == 4 and excess[:2] == [0.0, 0.0] and min(excess[2:]) > 0
    drawn = Drawn(1, 1, 1, [])
    drawn.plant("nap", [2.0], day=0.5)
    drawn.plant("nap", [2.0], day=2.5, first_request=1)
    folder = planted.folder.with_name("gap")
    store.write(folder, drawn.tables())
    [cause] = dashcam.fleet(folder).trend("nap").causes
    assert [bucket["excess_ns"] for bucket in cause["buckets"]] == [pytest.approx(1.9e9), None, pytest.approx(1.9e9)]


def test_show_finds_a_cause_by_the_beginning_of_its_fingerprint(planted: Planted) -> None:
    shown = planted.fleet.show("fet").cause
    hosts = {row["host"] for row in planted.drawn.rows["findings"] if row["fingerprint"] == "fetch"}
    assert shown["hosts"] == len(hosts) >= 8 and shown["advice"] == "Wait less."
    assert [one["excess_ns"] for one in shown["listed"]] == sorted((one["excess_ns"] for one in shown["listed"]), reverse=True)
    assert "only version 2.0" in planted.fleet.show("fet").text
    with pytest.raises(LookupError, match=r"2 causes have \(refresh \(billy\), refresh \(shop\)\)"):
        planted.fleet.show("refresh")
    with pytest.raises(LookupError, match="no cause has"):
        planted.fleet.show("nothing")


def test_filters_choose_captures(planted: Planted) -> None:
    now = BEGIN + datetime.timedelta(days=4)
    late = Fleet(planted.folder, since="24h", service="billy", where="version = '2.0'", now=now)
    rows = [row for row in planted.drawn.rows["captures"]
            if row["version"] == "2.0" and row["service"] == "billy" and row["captured_utc"] >= BEGIN + datetime.timedelta(days=3)]
    assert late.why().totals["captures"] == len(rows) > 0
    early = Fleet(planted.folder, until="2025-11-25T00:00Z", now=now)
    assert early.why().totals["to_utc"] < datetime.datetime(2025, 11, 25)
    for wrong in ({"since": "yesterday"}, {"where": "nonsense ="}, {"engine": "presto"}):
        with pytest.raises(ValueError):
            Fleet(planted.folder, **wrong)


def test_sql_sees_the_tables_and_nothing_else(planted: Planted) -> None:
    [(captures, services)] = planted.fleet.sql("select count(*), count(distinct service) from captures").fetchall()
    assert (captures, services) == (len(planted.drawn.rows["captures"]), 2)
    for query in ("select * from read_csv('/etc/passwd')", "copy captures to '/tmp/x.csv'", "set enable_external_access = true", "select nothing"):
        with pytest.raises(ValueError):
            planted.fleet.sql(query)
    table = planted.fleet.tables["findings"]
    assert table.filter(table.cause == "cpu").count().to_pyarrow().as_py() == sum(row["cause"] == "cpu" for row in planted.drawn.rows["findings"])


@pytest.mark.parametrize("small", [True, False])
def test_a_condition_is_no_statement(
    planted: Planted, tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "SMALL_BYTES", duck.SMALL_BYTES if small else 0)
    own = next((planted.folder / "captures").rglob("*.parquet"))
    before = own.read_bytes()
    for path in (own, tmp_path / "new.csv"):
        with pytest.raises(ValueError):
            Fleet(planted.folder, where=f"true); COPY (SELECT 1) TO '{path}'; SELECT (1")
    assert own.read_bytes() == before and not (tmp_path / "new.csv").exists()
    with pytest.raises(ValueError, match="disabled by configuration"):
        Fleet(planted.folder, where="1 in (select 1 from read_csv('/etc/passwd'))").why()


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", ["a=b", "day=2020-01-01", "star*[x]", "it's 100% sure"])
def test_the_folder_of_the_tables_may_have_any_name(
    planted: Planted, tmp_path: Path, name: str, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "SMALL_BYTES", duck.SMALL_BYTES if small else 0)
    shutil.copytree(planted.folder, tmp_path / name / "tables")
    fleet = Fleet(tmp_path / name / "tables")
    keys = ("service", "fingerprint", "excess_ns", "captures", "hosts")
    assert [[row[key] for key in keys] for row in fleet.why().causes] == [[row[key] for key in keys] for row in planted.why.causes]
    assert fleet.sql("select count(*) from captures").fetchall() == [(len(planted.drawn.rows["captures"]),)]


@pytest.mark.parametrize("small", [True, False])
def test_files_of_an_older_version_lack_columns(
    planted: Planted, tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "SMALL_BYTES", duck.SMALL_BYTES if small else 0)
    folder = tmp_path / "tables"
    shutil.copytree(planted.folder, folder)
    for path in [*(folder / "findings").rglob("*.parquet")][::2] + [*(folder / "captures").rglob("*.parquet")]:
        rows = pq.read_table(path, partitioning=None)
        pq.write_table(rows.drop_columns([name for name in ("request", "runtime") if name in rows.column_names]), path)
    fleet = Fleet(folder)
    assert fleet.why().totals == planted.why.totals
    found = fleet.sql("select count(*), count(request) from findings").fetchall()[0]
    assert found[0] == len(planted.drawn.rows["findings"]) > found[1] > 0
    table = fleet.tables["captures"]
    assert table.runtime.count().to_pyarrow().as_py() == 0


def test_a_capture_that_grew_after_it_was_indexed_counts_once(tmp_path: Path) -> None:
    drawn = Drawn(5, 4, 1, CAUSES[:2], versions=version)
    tables = drawn.tables()
    store.write(tmp_path, tables)
    before = Fleet(tmp_path).why()
    captures = tables["captures"]
    larger = pa.array([size + 100 for size in captures["bytes"].to_pylist()])
    store.write(tmp_path, {"captures": captures.set_column(captures.column_names.index("bytes"), "bytes", larger)})
    after = Fleet(tmp_path)
    assert after.why().text == before.text
    assert sorted(after.tables["captures"]["bytes"].to_pyarrow().to_pylist()) == sorted(larger.to_pylist())


def test_an_empty_fleet_has_an_answer(tmp_path: Path) -> None:
    drawn = Drawn(1, 1, 1, [])
    drawn.healthy(0, 0.5)
    store.write(tmp_path, drawn.tables())
    fleet = dashcam.fleet(tmp_path)
    assert "No captured request was slow." in fleet.why().text and fleet.why().causes == []
    assert fleet.trend().causes == []
    assert fleet.diff(before={"version": "1.0"}, after={"version": "2.0"}).differences == []
