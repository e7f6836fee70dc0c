"""`dashcam export --to parquet`: a file for each table, with the same content as Arrow, whole or
not at all.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import dashcam
import duckdb
import pyarrow
import pyarrow.parquet
from conftest import DASHCAM, PATIENCE_S, Bench
from test_captures_open_as_tables import capture_path

__all__ = ["capture_path"]


def files(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of the files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_files_are_the_tables(bench: Bench, capture_path: Path) -> None:
    result = bench.dashcam("export", str(capture_path), "--to", "parquet", "-o", "out")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    capture = dashcam.open(capture_path)
    assert sorted(files(bench.folder / "out")) == sorted(f"{n}.parquet" for n in capture.tables)
    for name, table in capture.tables.items():
        read = pyarrow.parquet.read_table(bench.folder / "out" / f"{name}.parquet")
        assert read.equals(pyarrow.table(table)), name
        # Spark refuses nanoseconds.
        stored = pyarrow.parquet.read_schema(bench.folder / "out" / f"{name}.parquet")
        assert {str(f.type) for f in stored if f.name.endswith("_utc")} <= {"timestamp[us]"}, name
    asked = duckdb.sql(f"select count(*) from '{bench.folder}/out/requests.parquet'").fetchall()
    assert asked == [(160,)]


def test_the_same_capture_gives_the_same_bytes_wherever_it_lies(bench: Bench,
                                                               capture_path: Path) -> None:
    copy = bench.folder / "copy" / capture_path.name
    copy.parent.mkdir()
    shutil.copy(capture_path, copy)
    bench.dashcam("export", str(capture_path), "--to", "parquet", "-o", "a")
    printed = bench.dashcam("export", str(copy), "--to", "parquet")
    beside = copy.with_suffix(".parquet")
    assert printed.stdout.strip() == str(beside), "its name is reported when none was given"
    assert files(bench.folder / "a") == files(beside)


def test_an_earlier_export_is_replaced_and_nothing_else_is(bench: Bench, capture_path: Path) -> None:
    export = ("export", str(capture_path), "--to", "parquet", "-o")
    assert bench.dashcam(*export, "out").returncode == 0
    (bench.folder / "out" / "gc.parquet").write_bytes(b"old")
    assert bench.dashcam(*export, "out").returncode == 0
    assert (bench.folder / "out" / "gc.parquet").read_bytes() != b"old"
    mine = bench.write("out/notes.txt", "mine")
    file = bench.write("file", "mine")
    refused = {"out": 'holds "notes.txt", which is no table', "file": "is a file, wanted",
               "-": "a folder of files", "no/where": "cannot write"}
    for target, message in refused.items():
        result = bench.dashcam(*export, target)
        assert result.returncode == 2 and message in result.stderr, (target, result.stderr)
    assert mine.read_text() == file.read_text() == "mine"
    assert bench.dashcam(*export, "x", "--value", "cpu").returncode == 2
    assert sorted(path.name for path in bench.folder.iterdir()) == ["file", "out"]


def test_a_kill_leaves_no_half_export(bench: Bench, capture_path: Path) -> None:
    for delay in (0.0, 0.005, 0.01, 0.02, 0.03, 0.05):
        words = [DASHCAM, "export", str(capture_path), "--to", "parquet", "-o", "out"]
        process = subprocess.Popen(words, cwd=bench.folder, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        out = bench.folder / "out"
        if out.exists():
            tables = dashcam.open(capture_path).tables
            assert len(files(out)) == len(tables)
            for path in out.iterdir():
                pyarrow.parquet.read_metadata(path)
            shutil.rmtree(out)
