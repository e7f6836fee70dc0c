"""`raw.waits`, ...: the tables of all captures of a fleet, read by processes with limits."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import pyarrow as pa  # noqa: E402
from dashcam._fleet import command, raw  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.rows import children, spooling, temporary  # noqa: E402
from dashcam._fleet.tables import spilled  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402

import dashcam  # noqa: E402

ONLY_SLEEP = "select count(*) from raw.causes where cause = 'sleep'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three captures of two services."""
    for name, service in (("a", "billy"), ("b", "billy"), ("c", "shop")):
        (tmp_path / f"{name}.dashcam").write_bytes(golden("sleep-library", host=f"host-{name}", service=service))
    return tmp_path


def dicts(answer: Any) -> list[dict[str, Any]]:
    """The rows of a query."""
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row)) for row in answer.fetchall()]


def test_each_table_has_the_rows_of_all_captures_and_their_names(folder: Path) -> None:
    with Fleet(folder, jobs=1) as fleet:
        ids = dict(fleet.sql("select host, capture_id from captures").fetchall())
        query = " union all ".join(f"select '{table}' as name, count(*) as n, count(distinct capture_id) as captures from raw.{table}"
                                   for table in spooling.names())
        counts = {row["name"]: (row["n"], row["captures"]) for row in dicts(fleet.sql(query))}
        waits = dicts(fleet.sql("select * from raw.waits where host = 'host-b'"))
    own = dashcam.open(folder / "b.dashcam", native_names=False)
    for table in spooling.names():
        rows = pa.table(own.tables[table]).num_rows
        assert counts[table] == (3 * rows, 3 if rows else 0), table
    origin = {"capture_id": ids["host-b"], "service": "billy", "version": "4.2", "host": "host-b"}
    assert waits == [origin | row for row in pa.table(own.tables["waits"]).to_pylist()] != []


def test_filters_choose_the_captures_that_are_read(folder: Path) -> None:
    with Fleet(folder, jobs=1, service="shop") as fleet:
        assert fleet.raw("threads").host.nunique().to_pyarrow().as_py() == 1
        assert fleet.notes == ["raw.threads: 1 of 1 captures were read"]
    with Fleet(folder, jobs=1, where="host <> 'host-a'") as fleet:
        assert fleet.sql(ONLY_SLEEP).fetchall() == [(2,)]
        with pytest.raises(LookupError, match="found 'wait', wanted one of capture, requests"):
            fleet.raw("wait")


def test_a_capture_that_cannot_be_read_is_a_row_of_refused(folder: Path) -> None:
    with Fleet(folder, jobs=1) as fleet:
        assert fleet.sql("select * from refused").fetchall() == []
        whole = (folder / "a.dashcam").read_bytes()
        (folder / "a.dashcam").write_bytes(whole[:300])
        # Another capture by the same name is none of those that were asked about.
        (folder / "b.dashcam").write_bytes(golden("sleep-library", host="else"))
        assert fleet.sql(ONLY_SLEEP).fetchall() == [(1,)]
        assert fleet.notes == ["raw.causes: 1 of 3 captures were read; 2 refused (table `refused`)"]
        [cut, other] = fleet.sql("select uri, why from refused order by uri").fetchall()
        assert cut == ("a.dashcam", "a.dashcam: capture is damaged beyond reading: no META chunk")
        assert other[0] == "b.dashcam" and "which had this name when it was judged" in other[1]


def test_a_capture_that_takes_too_much_is_refused_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    captured = spooling.Captured(children.File(folder / "a.dashcam", "a.dashcam", 1), ("0" * 32, "billy", None, "h"))
    spool = tmp_path / "spool"
    spool.mkdir()
    [late] = spooling.spooled([captured], ["waits"], spool, limits=children.Limits(seconds=0.0))
    [large] = spooling.spooled([captured], ["waits"], spool, limits=children.Limits(memory=1 << 20))
    assert late.why == "was not read in 0 s of CPU time" and large.why is not None and "memory" in large.why
    assert list(spool.iterdir()) == []


def test_a_killed_process_leaves_its_folder_to_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = ("import os, signal; from dashcam._fleet.tables import spilled; spill = spilled.Spill()\n"
            "(spill.folder.path / 'waits.parquet').write_bytes(b'rows'); os.kill(os.getpid(), signal.SIGKILL)")
    subprocess.run([sys.executable, "-c", code], check=False, env=os.environ | {"TMPDIR": str(tmp_path)})
    [left] = tmp_path.iterdir()
    assert left.name.startswith(temporary.PREFIX) and (left / "waits.parquet").exists()
    # Somebody else's of the same name, without the file that is locked.
    (tmp_path / f"{temporary.PREFIX}other").mkdir()
    first = spilled.Spill()
    second = spilled.Spill()
    assert not left.exists() and first.folder.path.exists() and len(list(tmp_path.iterdir())) == 3
    first.close()
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == [f"{temporary.PREFIX}other"]


def test_a_full_disk_is_named_with_the_folder_that_is_on_it(folder: Path) -> None:
    with Fleet(folder, jobs=1) as fleet, contextlib.closing(spilled.Spill()) as spill:
        listed = [spooling.Captured(children.File(folder / row["uri"], row["uri"], row["bytes"]), (row["capture_id"], "", "", ""))
                  for row in dicts(fleet.sql("select * from captures"))]
        spill._path("waits").symlink_to("/dev/full")
        with pytest.raises(OSError, match=f"{spill.folder.path}: .*No space left on device.*TMPDIR=DIR"):
            spill.add(["waits"], listed, jobs=1)


def test_captures_that_are_not_here_are_counted(folder: Path) -> None:
    row = {"capture_id": "0" * 32, "bytes": 1, "service": "billy", "version": None, "host": "h"}
    uris = ("a.dashcam", "gone.dashcam", "../outside.dashcam", "//h7/srv/x.dashcam")
    (folder / "sub").mkdir()
    (folder / "outside.dashcam").write_bytes(b"")
    found = raw.chosen([row | {"uri": uri} for uri in uris], folder)
    assert [one.file.uri for one in found.read] == ["a.dashcam"]
    assert [one.why for one in found.refused] == ["leads out of the folder of captures"]
    assert raw.note(["waits", "gc"], found, 1) == (
        "raw.waits, raw.gc: 1 of 4 captures were read; 1 refused (table `refused`); 1 on other hosts; 1 gone")
    with pytest.raises(dashcam.CaptureError, match=r"found none of 1 captures here \(they remained on h7\)"):
        raw.chosen([row | {"uri": uris[3]}], folder)


def test_the_command_says_how_many_captures_were_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["sql", "--jobs", "1", str(folder), ONLY_SLEEP, "--csv"]) == 0
    assert capsys.readouterr() == ("count_star()\n3\n", "dashcam: fleet: raw.causes: 3 of 3 captures were read\n")
    assert command.main(["sql", "--jobs", "1", str(folder), "select * from raw.gc join raw.nothing using (capture_id)"]) == 2
    # No capture was read before.
    assert capsys.readouterr().err == f"dashcam: fleet: raw: found raw.nothing, wanted one of {', '.join(spooling.names())}\n"


@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_a_table_that_captures_have_not_is_found_before_they_are_read(dialect: str) -> None:
    assert raw.named("select * from raw.waits w join RAW . gc using (capture_id), raw.waits", dialect) == ["gc", "waits"]
    with pytest.raises(ValueError, match=r"found raw.wait, wanted one of capture, requests, .*\bwaits\b"):
        raw.named("select * from raw.gc, raw.wait", dialect)
    # Others' own names, texts and comments.
    for query in ("select raw.wait from captures raw", "select x.raw.wait from x.raw", "select 'raw.wait' -- raw.wait", "select 'open"):
        assert raw.named(query, dialect) == []


# Query -> the same for an engine whose views have no schema.
RENAMED = {
    "select * from raw.waits": "select * from raw_waits AS waits",
    "select w.x from raw.waits w, RAW . `gc` as g": "select w.x from raw_waits w, raw_gc as g",
    "select raw.waits.host from raw.waits join raw.gc using (host)": "select waits.host from raw_waits AS waits join raw_gc AS gc using (host)",
    "select 'raw.waits' -- raw.waits": "select 'raw.waits' -- raw.waits",
    "select raw.gc from captures raw": "select raw.gc from captures raw",
    "select x.raw.gc, raw.other": "select x.raw.gc, raw.other",
    "select 'open": "select 'open",
}


@pytest.mark.parametrize("query", RENAMED)
def test_tables_of_captures_get_names_without_a_schema(query: str) -> None:
    assert raw.renamed(query, "spark") == RENAMED[query]


def test_executors_need_no_engine_and_no_recorder() -> None:
    code = ("import sys; sys.modules['dashcam._native'] = None; from dashcam._fleet.rows import spooling; "
            "print({'ibis', 'duckdb', 'sqlglot', 'pandas'} & set(sys.modules), 'waits' in spooling.names())")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set() True\n"
