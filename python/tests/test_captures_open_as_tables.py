"""`dashcam.open`: tables that pyarrow, Polars, pandas and DuckDB take, the verdict, the summary,
and clear errors."""

from __future__ import annotations

import gc
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any, Iterator

import dashcam
import pandas
import polars
import pyarrow
import pytest
from conftest import Bench
from dashcam import reading

ROOT = Path(__file__).resolve().parents[2]
DOCS, GOLDEN = ROOT / "docs", ROOT / "tests" / "captures"
BILLY = Path(__file__).with_name("billy.py")


@pytest.fixture(scope="module")
def capture_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A capture of billy.py, run under `dashcam run`."""
    bench = Bench(tmp_path_factory.mktemp("billy"))
    words = ["run", "--slow", "80ms", "--post", "50ms", "--", sys.executable, str(BILLY)]
    result = bench.dashcam(*words)
    assert result.returncode == 0, result.stderr
    yield Path(result.stdout.strip())


@pytest.fixture(scope="module")
def capture(capture_path: Path) -> reading.Capture:
    """The same, read."""
    return dashcam.open(capture_path)


@pytest.fixture(scope="module")
def sleeper_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored capture, whose samples do not depend on this machine: one request of 20 slept in fasten()."""
    path = tmp_path_factory.mktemp("sleeper") / "one.dashcam"
    path.write_bytes(gzip.decompress((GOLDEN / "sleep-library.dashcam.gz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def sleeper(sleeper_path: Path) -> reading.Capture:
    """The same, read."""
    return dashcam.open(sleeper_path)


def arrow(capture: reading.Capture, name: str) -> pyarrow.Table:
    """A table in pyarrow's form."""
    return pyarrow.table(capture.tables[name])


def documented() -> dict[str, list[tuple[str, str]]]:
    """Table -> name and type of its columns, as docs/tables.md lists them."""
    tables: dict[str, list[tuple[str, str]]] = {}
    text = (DOCS / "tables.md").read_text(encoding="utf-8")
    for line in text.split("## Tables and columns", 1)[1].splitlines():
        if line.startswith("### "):
            rows = tables.setdefault(line[4:], [])
        elif line.startswith("| `"):
            name, kind = (cell.strip(" `") for cell in line.split("|")[1:3])
            rows.append((name, kind))
    return tables


def test_every_documented_table_is_taken_by_pyarrow_polars_and_pandas(
        capture: reading.Capture) -> None:
    docs = documented()
    assert list(capture.tables) == list(docs)
    words = {"int64": "int64", "double": "double", "bool": "bool", "text": "string",
             "timestamp[us]": "timestamp[us]"}
    for name, table in capture.tables.items():
        made = pyarrow.table(table)
        made.validate(full=True)
        assert [(f.name, str(f.type)) for f in made.schema] == [(n, words[k]) for n, k in docs[name]]
        assert pyarrow.schema(table) == made.schema
        assert [(n, k) for n, k, _ in table.columns] == docs[name]
        frame = polars.DataFrame(table)
        assert (frame.shape, frame.columns) == (made.shape, made.column_names), name
        if hasattr(pandas.DataFrame, "from_arrow"):
            assert pandas.DataFrame.from_arrow(table).shape == made.shape, name
        else:
            assert made.to_pandas().shape == made.shape, name


def test_counts_and_sums_are_those_of_show(capture: reading.Capture, capture_path: Path,
                                           tmp_path: Path) -> None:
    shown = Bench(tmp_path).show(capture_path)
    assert capture.summary() == shown
    rows = {"requests": "requests", "events": "events", "samples": "samples", "switches": "off_cpu",
            "awaits": "awaits", "gc": "gcs", "tasks": "tasks", "vitals": "vitals"}
    for table, count in rows.items():
        assert arrow(capture, table).num_rows == shown["counts"][count], table
    spans = arrow(capture, "spans").to_pylist()
    assert sum(not s["is_own"] for s in spans) == shown["counts"]["spans"] == 80
    by_name: dict[str, int] = {}
    for request in arrow(capture, "requests").to_pylist():
        by_name[request["name"]] = by_name.get(request["name"], 0) + 1
        parts = [request[f"{state}_ns"] for state in ("run", "ready", "wait", "unknown")]
        assert sum(parts) == request["end_ns"] - request["started_ns"]
        assert request["is_slow"] == (request["duration_ns"] >= 80_000_000)
    assert by_name == {r["name"]: r["count"] for r in shown["requests"]}
    read = {(t["tid"], t["read"]) for t in shown["threads"]}
    threads = arrow(capture, "threads").to_pylist()
    assert {(t["tid"], t["read"]) for t in threads if t["from_ns"] is not None} == read
    windows = sum(len(m["windows"]) for m in shown["metrics"])
    assert arrow(capture, "metrics").num_rows == windows > 0
    orders = [m for m in arrow(capture, "metrics").to_pylist() if m["name"] == "orders"]
    assert sum(m["value"] for m in orders) == 160 and {m["tags"] for m in orders} == {"shop=eu"}


def test_attributes_keep_their_types_and_owners(capture: reading.Capture) -> None:
    rows = arrow(capture, "attributes").to_pylist()
    of_requests = {(r["owner_id"], r["key"]): r for r in rows if r["owner"] == "request"}
    requests = arrow(capture, "requests").to_pylist()
    checkout = next(r["request_id"] for r in requests if r["name"] == "GET /checkout")
    user, tier = of_requests[checkout, "user"], of_requests[checkout, "tier"]
    assert user["type"] == "int" and user["value"] == str(user["int_value"])
    assert tier["type"] == "text" and tier["value"] == ("gold" if user["int_value"] % 2 else "free")
    assert of_requests[checkout, "vip"]["bool_value"] is bool(user["int_value"] % 2)
    assert of_requests[checkout, "ratio"]["float_value"] == 0.5
    spans = {s["span_row"]: s for s in arrow(capture, "spans").to_pylist()}
    of_span = next(r for r in rows if r["owner"] == "span" and r["key"] == "rows")
    assert spans[of_span["owner_id"]]["request_id"] == of_span["request_id"] is not None


def test_stacks_name_functions_and_ids_join(sleeper: reading.Capture) -> None:
    frames = arrow(sleeper, "frames").to_pylist()
    assert {(f["owner"], f["line"]) for f in frames if f["function"] == "fasten"} == {("user", 11)}
    stacks = {s["stack_id"]: s for s in arrow(sleeper, "stacks").to_pylist()}
    assert {f["stack_id"] for f in frames} == set(stacks)
    for stack in stacks.values():
        assert stack["frames"] == sum(f["stack_id"] == stack["stack_id"] for f in frames)
    ids = {r["request_id"] for r in arrow(sleeper, "requests").to_pylist()}
    for name in ("samples", "waits", "pieces", "states"):
        rows = arrow(sleeper, name).to_pylist()
        assert rows and {r["request_id"] for r in rows} - {None} <= ids, name
        assert {r["stack_id"] for r in rows} - {None} <= set(stacks), name
    asleep = [w for w in arrow(sleeper, "waits").to_pylist() if w["kind"] == "sleep"]
    assert any(w["place"] == "bollard.py:11 fasten()" for w in asleep)


def test_claimed_segments_sum_to_their_requests(capture: reading.Capture) -> None:
    took = {r["request_id"]: r["duration_ns"] for r in arrow(capture, "requests").to_pylist()}
    sums: dict[int, int] = {}
    for interval in arrow(capture, "pieces").to_pylist():
        sums[interval["request_id"]] = sums.get(interval["request_id"], 0) + interval["duration_ns"]
    assert sums and sums == {request: took[request] for request in sums}


@pytest.mark.parametrize("name", ["capture_path", "sleeper_path"])
def test_the_verdict_is_that_of_why(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> None:
    path, bench = request.getfixturevalue(name), Bench(tmp_path)
    capture = dashcam.open(path)
    reported = bench.dashcam("why", "--json", str(path))
    verdict = capture.why()
    assert verdict.json() == json.loads(reported.stdout)
    assert verdict.text == str(verdict) == bench.dashcam("why", str(path)).stdout
    assert verdict.markdown == bench.dashcam("why", "--md", str(path)).stdout
    assert verdict.causes == verdict.json()["causes"]
    rows = arrow(capture, "causes").to_pylist()
    assert [(r["cause"], r["summary"]) for r in rows] == [
        (c["cause"], c["summary"]) for c in verdict.causes]
    evidence = arrow(capture, "evidence").num_rows
    assert evidence == sum(len(c["evidence"]) for c in verdict.causes)


def test_a_verdict_is_of_what_counts_as_slow(sleeper: reading.Capture) -> None:
    assert [cause["cause"] for cause in sleeper.why().causes] == ["sleep"]
    assert sleeper.why(slow="9h").causes == []
    with pytest.raises(ValueError, match="slow: "):
        sleeper.why(slow="soon")


def test_a_stream_outlives_its_capture_and_may_be_left_half_read(sleeper_path: Path) -> None:
    tables = dashcam.open(sleeper_path).tables
    reader = pyarrow.RecordBatchReader.from_stream(tables["samples"])
    left = tables["states"].__arrow_c_stream__()
    del tables
    gc.collect()
    assert reader.read_all().num_rows > 0
    del left
    gc.collect()


def test_a_folder_means_its_newest_capture(capture_path: Path, tmp_path: Path) -> None:
    older, newer = tmp_path / "b.dashcam", tmp_path / "a.dashcam"
    for i, path in enumerate((older, newer)):
        path.write_bytes(capture_path.read_bytes())
        os.utime(path, (1000 + i, 1000 + i))
    assert dashcam.open(tmp_path).path == newer
    assert repr(dashcam.open(str(newer))) == f"<dashcam capture {str(newer)!r}>"


@pytest.mark.parametrize(("content", "message"), [
    (b"", r"not a dashcam capture: begins with nothing \(the file is empty\)"),
    (b"root:x:0:0", "not a dashcam capture: begins with \"root:x:0:0\", wanted \"DASHCAM 2\""),
    (b"DASHCAM 9\n", "a dashcam capture of format 9, this dashcam reads format 2"),
    (b"DASHCAM 2\nMETA", "damaged beyond reading: no META chunk"),
])
def test_a_file_that_is_no_capture_is_reported(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.dashcam"
    path.write_bytes(content)
    with pytest.raises(dashcam.CaptureError, match=message) as raised:
        dashcam.open(path)
    assert str(path) in str(raised.value) and isinstance(raised.value, OSError)


def test_a_missing_file_and_an_empty_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(dashcam.CaptureError, match="nowhere: No such file"):
        dashcam.open(tmp_path / "nowhere")
    with pytest.raises(dashcam.CaptureError, match=r"no capture \(\*.dashcam\) in "):
        dashcam.open(tmp_path)


def test_a_cut_capture_is_read_as_far_as_it_is_whole(capture_path: Path, tmp_path: Path) -> None:
    whole = capture_path.read_bytes()
    path = tmp_path / "cut.dashcam"
    path.write_bytes(whole[:-len(whole) // 3])
    cut = dashcam.open(path)
    assert len(cut.damage) == 1 and "cut off at byte" in cut.damage[0]
    damage = [r for r in arrow(cut, "losses").to_pylist() if r["kind"] == "damage"]
    assert [r["what"] for r in damage] == cut.damage
    for name in cut.tables:
        arrow(cut, name)


def test_tables_are_a_mapping_and_say_what_there_is(capture: reading.Capture) -> None:
    tables: Any = capture.tables
    assert len(tables) == len(list(tables)) and "requests" in tables and "nothing" not in tables
    with pytest.raises(KeyError, match="no table 'nothing'; wanted one of capture, requests"):
        tables["nothing"]
    assert repr(tables["gc"]).startswith("<dashcam table gc: A garbage collection")


def test_a_recorded_program_loads_no_reader(bench: Bench) -> None:
    result = bench.python("""
        import sys, dashcam
        dashcam.start()
        with dashcam.request("GET /"):
            pass
        loaded = [name for name in sys.modules if name == "dashcam._reader"]
        print(loaded, "open" in dashcam.__all__)
        dashcam.stop()
    """)
    assert (result.returncode, result.stdout.strip()) == (0, "[] False"), result.stderr
