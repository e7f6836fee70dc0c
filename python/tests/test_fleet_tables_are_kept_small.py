"""`dashcam fleet compact` and `expire`: no row is lost or counted twice, wherever they are killed."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import pyarrow.dataset as ds  # noqa: E402
from dashcam._fleet import command  # noqa: E402
from dashcam._fleet.rows import schema  # noqa: E402
from dashcam._fleet.tables import indexing, keeping, store  # noqa: E402
from fleets import BEGIN, Cause, Drawn  # noqa: E402
from test_fleet_counts import line  # noqa: E402

import dashcam  # noqa: E402


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A fleet of two days, written in two parts; some rows are in two files."""
    drawn = Drawn(4, 3, 2, [Cause("refresh", 3.0, 2.0), Cause("fetch", 1.0, 1.0, service="shop")])
    out = tmp_path / "fleet-tables"
    for name, rows in drawn.tables().items():
        half = rows.num_rows // 2
        store.write(out, {name: rows.slice(0, half)})
        store.write(out, {name: rows.slice(half)})
        store.write(out, {name: rows.slice(0, 3)})
    (tmp_path / "billy.rollups.log").write_text(line(12, total=9, slow=3, excess_ns=10**9) + line(13, number=2, last=True))
    indexing.count(tmp_path, out)
    return out


def files(tables: Path) -> list[Path]:
    """All files of the tables."""
    return sorted(tables.rglob("*.parquet"))


def rows(tables: Path) -> dict[str, set[Any]]:
    """The keys of the rows of each table."""
    found = {}
    for table in schema.TABLES:
        keys = [name for name in table.key if name != "run"]
        read = store.read(tables, table.name).to_table(columns=keys)
        found[table.name] = set(zip(*(read[name].to_pylist() for name in keys)))
    return found


def answer(tables: Path) -> dict[str, Any]:
    """What is answered of the fleet."""
    return dashcam.fleet(tables).why().json()


def test_one_file_a_folder_is_left_and_answers_stay(tables: Path) -> None:
    before, count = answer(tables), len(files(tables))
    done = keeping.compact(tables)
    assert done.merged == count - (len(files(tables)) - done.written)
    parents = [file.parent for file in files(tables)]
    assert len(parents) == len(set(parents)) < count
    assert answer(tables) == before
    for table in (schema.CAPTURES, schema.FINDINGS, schema.REQUESTS):
        rows = store.read(tables, table.name).to_table().select(table.key)
        assert rows.group_by(table.key).aggregate([]).num_rows == rows.num_rows, "each row once"
    once = files(tables)
    assert keeping.compact(tables) == (0, 0, 0) and files(tables) == once


@pytest.mark.parametrize("removed", [0, 1, 3])
def test_a_job_killed_while_it_removes_files_loses_nothing(tables: Path, removed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(tables)
    unlink, left = Path.unlink, [removed]

    def dies(path: Path, missing_ok: bool = False) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            keeping.compact(tables)
    assert rows(tables) == before
    keeping.compact(tables)
    parents = [file.parent for file in files(tables)]
    assert len(parents) == len(set(parents)) and rows(tables) == before


def test_a_file_written_meanwhile_is_left_alone(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_once = store.write_once
    drawn = Drawn(9, 2, 3, [Cause("late", 1.0, 2.0)])
    # The same names of captures are other captures.
    late = drawn.tables()["findings"]
    late = late.set_column(late.schema.get_field_index("capture_id"), "capture_id", [[f"f{one[1:]}" for one in late["capture_id"].to_pylist()]])
    came: list[int] = []

    def and_another(folder: Path, merged: Any) -> tuple[Path, int]:
        if not came:
            came.append(1)
            monkeypatch.setattr(store, "write_once", write_once)
            store.write(tables, {"findings": late})
            monkeypatch.setattr(store, "write_once", and_another)
        return write_once(folder, merged)

    monkeypatch.setattr(store, "write_once", and_another)
    keeping.compact(tables)
    monkeypatch.undo()
    assert rows(tables)["findings"] >= {(one, 1) for one in late["capture_id"].to_pylist()}


def test_old_days_are_removed_and_the_others_answer(tables: Path) -> None:
    day = (BEGIN + datetime.timedelta(days=1)).date()
    kept = {name: len(store.read(tables, name).to_table(columns=["day"]).filter(ds.field("day") >= day)) for name in ("captures", "findings")}
    done = keeping.expire(tables, tables.parent, day)
    assert done.folders > 0 and done.kept == 0
    for table in (schema.CAPTURES, schema.FINDINGS, schema.REQUESTS, schema.ROLLUPS):
        assert min(store.read(tables, table.name).to_table(columns=["day"])["day"].to_pylist(), default=day) >= day
    assert {name: store.read(tables, name).count_rows() for name in kept} == kept
    assert keeping.expire(tables, tables.parent, day) == (0, 0, 0)


def test_days_whose_captures_are_there_are_kept_unless_these_go_too(tables: Path) -> None:
    day = (BEGIN + datetime.timedelta(days=1)).date()
    [first] = [row for row in store.read(tables, "captures").to_table(columns=["uri", "captured_utc"]).sort_by("captured_utc").to_pylist()][:1]
    capture = tables.parent / first["uri"]
    capture.write_bytes(b"capture")
    other = tables.parent / "other.dashcam"
    other.write_bytes(b"not listed")
    done = keeping.expire(tables, tables.parent, day)
    assert done.kept == 1 and capture.exists()
    assert first["uri"] in store.read(tables, "captures").to_table(columns=["uri"])["uri"].to_pylist()
    assert keeping.expire(tables, tables.parent, day, remove_captures=True).captures == 1
    assert not capture.exists() and other.exists()


def test_a_name_that_leads_out_of_the_folder_is_not_removed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    outside = tmp_path / "outside.dashcam"
    outside.write_bytes(b"mine")
    drawn = Drawn(1, 1, 1, [])
    drawn.plant("refresh", [1.0])
    drawn.rows["captures"][0]["uri"] = "../outside.dashcam"
    store.write(source / "fleet-tables", drawn.tables())
    keeping.expire(source / "fleet-tables", source, datetime.date(2030, 1, 1), remove_captures=True)
    assert outside.exists()


def test_the_commands(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["compact", str(tables.parent)]) == 0
    assert "files merged" in capsys.readouterr().out
    assert command.main(["expire", str(tables), "--before", "2030-01-01"]) == 0
    assert "captures removed" in capsys.readouterr().out
    assert command.main(["compact", str(tables.parent / "none")]) == 3
    assert command.main(["expire", str(tables)]) == 2


def test_compact_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    drawn = Drawn(1, 1, 1, [])
    drawn.healthy(0, 0.5)
    store.write(tmp_path, drawn.tables())
    [folder] = (tmp_path / "captures").glob("day=*/service=*")
    for name, hours in ((".old.tmp", 25), (".new.tmp", 23)):
        (folder / name).write_bytes(b"half")
        then = time.time() - hours * 3600
        os.utime(folder / name, (then, then))
    keeping.compact(tmp_path)
    assert sorted(path.name for path in folder.glob(".*")) == [".new.tmp"]


def test_the_next_writer_of_a_folder_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = [tmp_path / "captures" / f".{name}{store.UNFINISHED}" for name in ("killed", "running")]
    left[0].parent.mkdir()
    for file in left:
        file.write_bytes(b"PAR1")
    os.utime(left[0], (1, 1))
    store.put(tmp_path, "captures/part-1.parquet", b"PAR1")
    assert sorted(left[0].parent.iterdir()) == [left[1], tmp_path / "captures" / "part-1.parquet"]
