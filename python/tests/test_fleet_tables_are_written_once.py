"""The fleet's tables: folders by day and service, files that never change, jobs that may be killed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import pyarrow.parquet as pq  # noqa: E402
from dashcam._fleet import command  # noqa: E402
from dashcam._fleet.tables import cache, indexing, store  # noqa: E402
from fleets import Cause, Drawn  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402

import dashcam  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two captures of one service on two days, one of another in a folder below, and a file that is
    none."""
    day_ns = 86_400 * 10**9
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    for name, data in {
        "a.dashcam": golden("sleep-library"),
        "b.dashcam": golden("sleep-library", start_epoch_ns=1_763_942_400 * 10**9 + day_ns),
        "below/c.dashcam": golden("downstream-wait-http", service="../up", host="h2"),
        "junk.dashcam": b"junk", "notes.txt": b"no capture",
    }.items():
        (source / name).write_bytes(data)
    os.symlink(source / "a.dashcam", source / "link.dashcam")
    return source


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and time of writing of all files below."""
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_second_run_adds_what_is_new_and_changes_no_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = indexing.index(folder, out, jobs=1)
    assert counts[:4] == (4, 0, 3, 1)
    first = files(out)
    days = {path.split("/")[1] for path in first if path.startswith("captures/")}
    assert days == {"day=2025-11-24", "day=2025-11-25"}
    assert any("/service=..%2Fup/" in path for path in first), "a service cannot leave its folder"
    assert indexing.index(folder, out, jobs=1) == (4, 4, 0, 0, 0)
    (folder / "d.dashcam").write_bytes(golden("sleep-library", host="h9"))
    assert indexing.index(folder, out, jobs=1)[:4] == (5, 4, 1, 0)
    assert first.items() <= files(out).items()


def test_a_job_that_was_killed_writes_the_same_files_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    indexing.index(folder, out, jobs=1)
    whole = {name: data for name, (data, _) in files(out).items()}
    # Killed in the middle of a file, before the captures were listed, which come last.
    for path in (out / "captures").rglob("*.parquet"):
        path.rename(path.with_name(".half.tmp"))
    assert store.known(out) == {("junk.dashcam", 4)}
    indexing.index(folder, out, jobs=1)
    assert {name: data for name, (data, _) in files(out).items() if not name.endswith(".tmp")} == whole
    assert len(store.known(out)) == 4


def test_times_are_microseconds_and_the_folders_are_no_columns(folder: Path, tmp_path: Path) -> None:
    indexing.index(folder, tmp_path / "out", jobs=1)
    for path in (tmp_path / "out").rglob("*.parquet"):
        schema = pq.read_schema(path)
        assert not {"day", "service"} & set(schema.names)
        assert {str(field.type) for field in schema if field.name.endswith("_utc")} <= {"timestamp[us]"}


def test_a_capture_in_two_files_counts_once_by_the_newest_rules(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.2.0"):
        drawn = Drawn(3, 4, 2, [Cause("nap", 1, 1.0)])
        for rows in drawn.rows.values():
            for row in rows:
                row["rules_version"] = version
                if "fingerprint" in row:
                    row["fingerprint"] = f"by {version}"
        store.write(tmp_path, drawn.tables())
    # The same rows in a file of another name, as after a crash.
    [one, *_] = (tmp_path / "findings").rglob("*.parquet")
    one.with_name("part-copy.parquet").write_bytes(one.read_bytes())
    answer = dashcam.fleet(tmp_path).why()
    assert answer.totals["captures"] == len(drawn.rows["captures"])
    [cause] = answer.causes
    assert cause["fingerprint"] == "by 0.10.0" and cause["captures"] == len(drawn.rows["findings"])
    assert cause["excess_ns"] == pytest.approx(drawn.truth["billy", "nap"])


def test_captures_are_asked_about_without_an_index_and_only_while_they_are_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = files(folder)
    assert dashcam.fleet(folder).why().totals["captures"] == 3
    assert files(folder) == before, "nothing is written among the captures"
    (folder / "a.dashcam").unlink()
    answer = dashcam.fleet(folder).why()
    assert (answer.totals["captures"], answer.totals["refused"]) == (2, 1)


def test_of_a_file_that_was_replaced_what_is_there_now_is_asked_about(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert dashcam.fleet(folder).why().totals["captures"] == 3
    (folder / "a.dashcam").write_bytes(golden("downstream-wait-http", host="h7"))
    (folder / "junk.dashcam").write_bytes(b"more junk")
    answer = dashcam.fleet(folder)
    assert (answer.why().totals["captures"], answer.why().totals["refused"]) == (3, 1)
    assert answer.sql("select host from captures where uri = 'a.dashcam'").fetchall() == [("h7",)]


def test_a_full_disk_is_named_with_the_folder_that_is_on_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tempfile.mkstemp

    def full(**options: Any) -> tuple[int, str]:
        handle, name = made(**options)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert command.main(["index", str(folder), "--out", str(tmp_path / "out"), "--jobs", "1"]) == command.UNREADABLE
    wanted = f"fleet: {tmp_path / 'out'}: No space left on device; wanted room for tables there"
    assert wanted in capsys.readouterr().err
    assert command.main(["why", str(folder), "--jobs", "1"]) == command.UNREADABLE
    assert f"fleet: {cache.folder(folder, False)}: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.parquet")) + list(tmp_path.rglob("*.tmp"))


def test_tables_among_the_captures_are_brought_up_to_date_and_remember(folder: Path) -> None:
    inside = folder / indexing.INSIDE
    (folder / "b.dashcam").rename(folder / "later")
    indexing.index(folder, inside, jobs=1)
    (folder / "a.dashcam").unlink()
    (folder / "later").rename(folder / "b.dashcam")
    source = indexing.opened(folder, jobs=1)
    assert (source.tables, source.captures, source.live, source.notes) == (inside, folder, None, [])
    assert {uri for uri, _ in store.known(inside)} == {"a.dashcam", "b.dashcam", "below/c.dashcam", "junk.dashcam"}
    assert indexing.opened(inside) == source, "the tables alone know where the captures are"


def test_a_folder_named_captures_is_no_index(folder: Path) -> None:
    folder.rename(folder.with_name("captures"))
    assert not store.is_index(folder.parent)
    assert len(list(indexing.captures(folder.parent))) == 4


def test_a_source_without_captures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(dashcam.CaptureError, match="no capture"):
        dashcam.fleet(tmp_path)
    with pytest.raises(dashcam.CaptureError, match="found no folder"):
        dashcam.fleet(tmp_path / "gone")
