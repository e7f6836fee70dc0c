"""Counts of all requests: exact sums, divided as in the captures; logs that grow, and damaged ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from dashcam._fleet.rows import counting, judging  # noqa: E402
from dashcam._fleet.tables import indexing, store  # noqa: E402
from fleets import Drawn, S  # noqa: E402

import dashcam  # noqa: E402

HOUR_NS = 3600 * S
BEGIN_NS = 1_763_942_400 * S


def line(hour: float = 12, *, version: str = "1.0", run: str = "a", number: int = 1, last: bool = False, **requests: Any) -> str:
    """A line of a log: `GET /` with these counts."""
    counts = dict.fromkeys(counting.COUNTS, 0) | requests
    begin = BEGIN_NS + int(hour * HOUR_NS)
    row = {"name": "GET /", **counts, "typical_ns": S // 100, "limit_ns": S // 2, "histogram": [[100, counts["total"]]]}
    return json.dumps({
        "schema": 1, "service": "billy", "host": "host-0000", "pid": 100, "started_epoch_ns": BEGIN_NS, "run": run, "number": number,
        "last": last, "from_epoch_ns": begin, "to_epoch_ns": begin + HOUR_NS // 2, "version": "0.1.0", "labels": {"version": version},
        "requests": [row],
    }) + "\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Captures of hour 12 with 3 s of one cause and 1 s of another; 40 s of excess were counted in
    this hour, 20 s in the next."""
    drawn = Drawn(1, 1, 1, [], unexplained=0.0)
    drawn.plant("refresh", [1.0, 2.0], day=0.51, first_request=1)
    drawn.plant("resize", [1.0], day=0.52, first_request=9)
    store.write(tmp_path / "fleet-tables", drawn.tables())
    log = line(12, total=900_000, slow=30, excess_ns=40 * S, captured=2, suppressed=28)
    log += line(13, number=2, last=True, total=100_000, slow=10, excess_ns=20 * S)
    (tmp_path / "billy.rollups.log").write_text(log)
    return tmp_path


def test_excess_is_what_was_counted_divided_as_in_the_captures(source: Path) -> None:
    why = dashcam.fleet(source).why()
    assert [(row["fingerprint"], row["excess_ns"] / S) for row in why.causes] == [("refresh", pytest.approx(30)), ("resize", pytest.approx(10))]
    assert [row["share"] for row in why.causes] == [pytest.approx(0.5), pytest.approx(1 / 6)]
    # Two and one of the three captured ones, of 30.
    assert [row["slow_per_million"] for row in why.causes] == [pytest.approx(20), pytest.approx(10)]
    assert why.totals["not_captured_ns"] / S == pytest.approx(20)
    assert (why.totals["excess_ns"] / S, why.totals["captured_excess_ns"] / S) == (pytest.approx(60), pytest.approx(4))
    assert why.totals["unexplained_ns"] == pytest.approx(0)
    assert why.causes[0]["worst"]["excess_ns"] / S == pytest.approx(3), "of a capture what it has"
    assert "1,000,000 requests, 40 over their limits (40 in a million)" in why.text
    assert "Not captured: 33 % of the excess, 10 slow requests" in why.text


def test_a_version_without_a_capture_is_known_by_its_requests(source: Path) -> None:
    with open(source / "billy.rollups.log", "a") as log:
        log.write(line(12, version="0.9", run="b", last=False, total=5000))
    fleet = dashcam.fleet(source)
    text = fleet.why().text
    assert "only version 1.0; not in 0.9 (5,000 requests)" in text
    assert "1 process still at work or killed: its last counts are missing." in text
    assert dashcam.fleet(source, where="version = '0.9'").why().totals["counts"][0]["total"] == 5000
    [(rows,)] = fleet.sql("select count(*) from rollups").fetchall()
    assert rows == 3


def test_without_counts_nothing_is_scaled(source: Path) -> None:
    (source / "billy.rollups.log").write_text("")
    why = dashcam.fleet(source).why()
    assert [row["excess_ns"] / S for row in why.causes] == [pytest.approx(3), pytest.approx(1)]
    assert why.totals["not_captured_ns"] is None and why.causes[0]["slow_per_million"] is None
    assert "there is no count of all requests" in why.text


def test_requests_that_are_in_two_captures_are_scaled_once(tmp_path: Path) -> None:
    drawn = Drawn(1, 1, 1, [], unexplained=0.0)
    drawn.plant("refresh", [1.0, 2.0], day=0.51, first_request=1)
    drawn.plant("refresh", [2.0, 3.0], day=0.512, first_request=2, begin_day=0.509)
    store.write(tmp_path / "fleet-tables", drawn.tables())
    (tmp_path / "billy.rollups.log").write_text(line(12, total=9, slow=9, excess_ns=60 * S))
    why = dashcam.fleet(tmp_path).why()
    assert why.totals["captured_excess_ns"] / S == pytest.approx(6)
    assert why.causes[0]["excess_ns"] / S == pytest.approx(60)


def test_a_log_that_grows_and_is_renamed_adds_its_new_lines_once(source: Path, tmp_path: Path) -> None:
    log, out = source / "billy.rollups.log", tmp_path / "out"

    def numbers() -> list[int]:
        return sorted(store.read(out, "rollups").to_table()["number"].to_pylist())

    indexing.count(source, out)
    assert numbers() == [1, 2]
    assert indexing.count(source, out) == 0
    # The last line is still being written.
    with open(log, "a") as file:
        file.write(line(14, number=3) + line(15, number=4)[:-20])
    assert indexing.count(source, out) == 1
    assert numbers() == [1, 2, 3]
    log.rename(source / "billy.rollups.log.1")
    log.write_text(line(16, number=5))
    indexing.count(source, out)
    assert numbers() == [1, 2, 3, 5], "a line that was cut short is none"


def test_a_folder_that_was_emptied_and_used_again_has_its_new_counts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "captures"
    log = source / "billy.rollups.log"

    def total() -> int:
        [counted] = dashcam.fleet(source).why().totals["counts"]
        return int(counted["total"])

    source.mkdir()
    log.write_text(line(12, total=30))
    assert total() == 30
    with open(log, "a") as file:
        file.write(line(13, number=2, total=5))
    assert total() == 35
    # Put away: its lines are remembered, and the next ones are added.
    log.rename(source / "billy.rollups.log.1")
    log.write_text(line(14, number=3, total=7))
    assert total() == 42
    shutil.rmtree(source)
    source.mkdir()
    log.write_text(line(15, run="b", total=4))
    assert total() == 4
    log.write_text("\x00")
    assert total() == 4, "no line of it says that it is another log"


@pytest.mark.parametrize("wrong", [
    "{", "[]", "{\"schema\": 2}", "[" * 100_000, line().replace('"run"', '"ran"').replace('"number": 1', '"number": -1').strip(),
    line(1e9).strip(), line().replace("[[100,", "[[482,").strip(), line().replace('"GET /"', '"' + "x" * (5 << 20) + '"').strip(),
    line().replace('"total": 0', '"total": 1e9').strip(), "\x00\xff",
])
def test_a_wrong_line_is_passed_over_and_reported(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "x.rollups.log"
    path.write_bytes(line().encode() + wrong.encode("latin-1") + b"\n" + line(13, number=2).encode())
    found = counting.rows(path, "x", path.stat().st_size)
    assert found.rows["number"].to_pylist() == [1, 2]
    assert found.wrong == 1 and found.why.startswith("line 2: ")
    out = tmp_path / "out"
    indexing.count(tmp_path, out)
    [row] = store.read(out, "refused").to_table().to_pylist()
    assert row["why"].startswith("1 lines were passed over; line 2: ")


def test_a_log_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.rollups.log"
    with open(path, "wb") as file:
        file.truncate(counting.FILE_BYTES_MAX + 1)
    with pytest.raises(judging.Refused, match="wanted at most 67108864"):
        counting.rows(path, "x", path.stat().st_size)
    assert indexing.count(tmp_path, tmp_path / "out") == 1


def test_what_the_recorder_writes_is_read(bench: Any) -> None:
    (bench.folder / "captures").mkdir()
    done = bench.python(
        "import dashcam\n"
        "dashcam.start(service='counted', out='captures', labels='version=4.2', slow='1s')\n"
        "for _ in range(30):\n"
        "    with dashcam.request('quick'): pass\n"
        "dashcam.stop()\n")
    assert done.returncode == 0, done.stderr
    totals = dashcam.fleet(bench.folder / "captures").why().totals
    [counted] = totals["counts"]
    assert (counted["service"], counted["total"], counted["slow"], counted["open"]) == ("counted", 30, 0, 0)
