"""`dashcam sql`: every query of docs/guide/sql.md, the forms of an answer, and what is refused."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import limited
import pytest
from conftest import DASHCAM, Bench
from dashcam.sql import connect
from test_captures_open_as_tables import DOCS, capture_path

__all__ = ["capture_path"]

GUIDE = (DOCS / "guide" / "sql.md").read_text(encoding="utf-8")
QUESTION = re.compile(r"^### (.+?)\n(?:.*?)```sql\n(.*?)```\n\nColumns: (.+?)\n", re.S | re.M)
QUESTIONS = [(title, query, re.findall(r"`(\w+)`", columns))
             for title, query, columns in QUESTION.findall(GUIDE)]


def ask(path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a query on a capture."""
    return Bench(path.parent).dashcam("sql", str(path), *words)


@functools.lru_cache(maxsize=None)
def answer(path: Path, query: str) -> list[dict[str, Any]]:
    """The rows of an answer; cached, for each query takes a second."""
    result = ask(path, "--json", query)
    assert result.returncode == 0, result.stderr
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_the_guide_has_ten_questions() -> None:
    assert len(QUESTIONS) == GUIDE.count("```sql") == GUIDE.count("\n### ") == 10


@pytest.mark.parametrize(("query", "columns"), [q[1:] for q in QUESTIONS],
                         ids=[q[0] for q in QUESTIONS])
def test_a_worked_question_has_an_answer(capture_path: Path, query: str,
                                         columns: list[str]) -> None:
    rows = answer(capture_path, query)
    assert rows and all(list(row) == columns for row in rows), rows


def test_the_answers_are_true(capture_path: Path) -> None:
    answers = {title: answer(capture_path, query) for title, query, _ in QUESTIONS}
    slow = answers["What did slow requests wait for?"]
    # Before any finding except those that other work on the machine causes in a service.
    own = [row["cause"] for row in slow if row["cause"] != "cpu-starved"]
    assert {"sleep", "lock-wait"} <= set(own[:3]), slow
    locks = answers["Which lock makes a convoy, and who holds it?"]
    held = [row for row in locks if row["holder"] in ("report-1", "report-2")]
    assert sum(row["total_ms"] for row in held) > 300, locks
    assert all(row["waits_at"].endswith((" report()", " hold()")) for row in held), locks
    routes = {row["name"]: row for row in answers["Which route costs the most CPU?"]}
    # 80 requests that burn 3 ms each; 70 that burn 2 ms.
    assert routes["GET /checkout"]["requests"] == 80
    tiers = answers["Is one customer, shard or tier slower than the others?"]
    # Eight of the gold ones pause; a busy machine may make others slow too.
    assert {row["tier"]: row["slow"] >= 8 for row in tiers}["gold"], tiers
    assert {row["tier"]: row["requests"] for row in tiers} == {"gold": 40, "free": 40}
    step = answers["What happened in the slowest request, step by step?"]
    assert step[0]["at_ms"] >= 0 and sum(row["for_ms"] for row in step) > 80


def test_a_table_csv_and_json_hold_the_same(capture_path: Path) -> None:
    query = "select name, count(*) as n, max(begin_utc) as last from requests group by name order by 1"
    rows = json.loads(ask(capture_path, "--json", query).stdout)
    assert [row["name"] for row in rows] == ["GET /checkout", "GET /report"]
    reported = list(csv.DictReader(io.StringIO(ask(capture_path, "--csv", query).stdout)))
    assert reported == [{**row, "n": str(row["n"])} for row in rows]
    lines = ask(capture_path, query).stdout.splitlines()
    assert lines[0].split() == ["name", "n", "last"] and set(lines[1]) == {"-", " "}
    assert lines[2].split() == ["GET", "/checkout", "80", rows[0]["last"]]


def test_a_table_is_read_as_often_as_a_query_and_a_connection_need(capture_path: Path) -> None:
    twice = "select (select count(*) from requests) + (select count(*) from REQUESTS) as n"
    assert json.loads(ask(capture_path, "--json", twice).stdout) == [{"n": 320}]
    assert json.loads(ask(capture_path, "--json", f"select 1; {twice}").stdout) == [{"n": 320}]
    assert len(json.loads(ask(capture_path, "--json", "describe requests").stdout)) > 5
    connection = connect(capture_path)
    for _ in range(2):
        assert connection.execute(twice).fetchall() == [(320,)]


def test_no_rows_have_a_head_all_the_same(capture_path: Path) -> None:
    nothing = "select name from requests where false"
    assert ask(capture_path, "--json", nothing).stdout == "[]\n"
    assert ask(capture_path, "--csv", nothing).stdout == "name\n"
    assert ask(capture_path, nothing).stdout.splitlines() == ["name", "----"]


def test_equal_names_of_columns_are_numbered(capture_path: Path) -> None:
    twice = json.loads(ask(capture_path, "--json", "select 1 as a, 2 as a").stdout)
    assert twice == [{"a": 1, "a_2": 2}]


def test_names_do_not_move_a_terminals_cursor(capture_path: Path) -> None:
    shown = ask(capture_path, "select chr(27) || '[2J' || chr(10) as x").stdout
    assert shown.splitlines()[2] == r"\x1b[2J\n"


@pytest.mark.parametrize(("query", "message"), [
    ("selec 1", "Parser Error: syntax error"),
    ("select * from nothing", "Catalog Error: Table with name nothing does not exist"),
    ("select * from read_csv('/etc/passwd')", "file system operations are disabled"),
    ("select * from '/etc/passwd'", "Error"),
    ("copy requests to '/tmp/dashcam-sql-leak.csv'", "file system operations are disabled"),
    ("attach '/tmp/dashcam-sql-leak.db'", "file system operations are disabled"),
    ("set enable_external_access = true", "the configuration has been locked"),
    ("install httpfs", "disabled"),
    ("select * from capture_path", "Catalog Error"),
])
def test_what_is_wrong_or_outside_of_the_capture_is_refused(capture_path: Path, query: str,
                                                            message: str) -> None:
    result = ask(capture_path, query)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("dashcam: sql: ") and message in result.stderr, result.stderr
    assert not list(Path("/tmp").glob("dashcam-sql-leak*"))


def test_captures_that_cannot_be_read_and_wrong_words(bench: Bench, capture_path: Path) -> None:
    bad = bench.write("x.dashcam", "hello")
    result = ask(bad, "select 1")
    assert result.returncode == 3 and "not a dashcam capture" in result.stderr
    assert bench.dashcam("sql", "nowhere.dashcam", "select 1").returncode == 3
    empty = bench.folder / "empty"
    empty.mkdir()
    assert bench.dashcam("sql", str(empty), "select 1").returncode == 1
    assert ask(capture_path, "--json", "--csv", "select 1").returncode == 2
    assert bench.dashcam("sql", str(capture_path)).returncode == 2


def test_a_folder_is_its_newest_capture_and_modules_beside_us_are_not_ours(
        bench: Bench, capture_path: Path) -> None:
    shutil.copy(capture_path, bench.folder / "a.dashcam")
    bench.write("duckdb.py", "raise SystemExit('not this one')")
    result = bench.dashcam("sql", ".", "select file from capture")
    assert result.stdout.splitlines()[2] == "a.dashcam", result.stderr


def test_a_reader_that_stops_is_no_error(capture_path: Path) -> None:
    command = f"{DASHCAM} sql {capture_path} 'select range from range(300000)' | head -n 3"
    result = limited.run(["bash", "-o", "pipefail", "-c", command], 90, capture_output=True, text=True)
    assert len(result.stdout.splitlines()) == 3 and result.stderr == ""


def test_without_duckdb_the_remedy_is_named(bench: Bench, capture_path: Path) -> None:
    # The package without its extras: a folder with dashcam alone in it, and no site packages.
    import dashcam

    shutil.copytree(Path(dashcam.__file__).parent, bench.folder / "alone" / "dashcam")
    words = [sys.executable, "-S", "-m", "dashcam.sql", "table", str(capture_path), "select 1"]
    result = bench.run(words, PYTHONPATH=str(bench.folder / "alone"))
    assert result.returncode == 2, result.stderr
    assert "the package duckdb cannot be loaded" in result.stderr
    assert "-m pip install 'dashcam[sql]'" in result.stderr and "--to parquet" in result.stderr


def test_without_any_python_the_remedy_is_named(bench: Bench, capture_path: Path) -> None:
    lone = bench.folder / "bin" / "dashcam"
    lone.parent.mkdir()
    shutil.copy(DASHCAM, lone)
    result = limited.run([str(lone), "sql", str(capture_path), "select 1"], 90,
                         env={"PATH": str(lone.parent)}, capture_output=True, text=True)
    assert result.returncode == 2
    assert "found no Python with the package dashcam" in result.stderr
    assert "pip install 'dashcam[sql]'" in result.stderr
