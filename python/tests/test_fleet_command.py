"""`dashcam fleet`: exit codes, forms, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from conftest import Bench  # noqa: E402
from dashcam._fleet import command  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import Cause, Drawn  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten hosts, of which all get version 2.0 after a day, which has a cause of its own."""
    folder = tmp_path_factory.mktemp("tables")
    causes = [Cause("refresh", 2, 2.0), Cause("fetch", 1, 4.0, versions=("2.0",))]
    store.write(folder, Drawn(4, 10, 2, causes, versions=lambda host, day: "2.0" if day >= 1 else "1.0").tables())
    return folder


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of the command, in this process."""
    code = command.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_each_verb_prints_text_or_json(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = asked(capsys, "why", tables)
    assert (code, err) == (0, "") and "1. billy  lock-wait  app.py refresh()" in text
    code, text, _ = asked(capsys, "why", tables, "--json", "--by", "host", "--top", 3)
    answer = json.loads(text)
    assert code == 0 and [len(answer["groups"]), answer["more"], answer["by"]] == [3, 7, ["host"]]
    code, text, _ = asked(capsys, "sql", tables, "select count(*) as n from captures", "--csv")
    assert code == 0 and text.splitlines()[0] == "n"


def test_a_difference_for_the_worse_is_exit_code_1(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ("--before", "version=1.0", "--after", "version=2.0")
    code, text, _ = asked(capsys, "diff", tables, *sides)
    assert code == 1 and "new: billy  lock-wait  app.py fetch()" in text
    code, text, _ = asked(capsys, "diff", tables, "--before", "version=2.0", "--after", "version=1.0", "--json")
    assert code == 0 and [row["kind"] for row in json.loads(text)["differences"]] == ["gone"]


AT_THE_END = """
import atexit, sys
from dashcam._fleet import command

class Left:
    def __del__(self):
        print("taken apart")

def main(words):
    atexit.register(print, "closed")
    if words:
        raise KeyboardInterrupt
    print("answered", end=" ")
    return 1

left, command.main = Left(), main
sys.exit(command.process(sys.argv[1:]))
"""


def test_the_process_of_a_command_is_not_taken_apart_at_its_end() -> None:
    run = [sys.executable, "-c", AT_THE_END]
    ended = subprocess.run(run, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "answered closed\n", "")
    interrupted = subprocess.run([*run, "interrupted"], capture_output=True, text=True)
    assert "KeyboardInterrupt" in interrupted.stderr and interrupted.returncode != 0


@pytest.mark.parametrize("full", ["/dev/full", None], ids=["full", "broken"])
def test_what_cannot_be_written_at_the_end_is_reported(full: str | None) -> None:
    run = [sys.executable, "-c", AT_THE_END]
    # What is printed waits until the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if full is not None:
        with open(full, "w") as out:
            ended = subprocess.run(run, stdout=out, stderr=subprocess.PIPE, env=environment, text=True)
        assert ended.returncode == 120 and "No space left" in ended.stderr
        return
    # As `| head` that has ended.
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(run, stdout=write, stderr=subprocess.PIPE, env=environment, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("wrong", [[], ["--watch", "--for", "1s"]], ids=["once", "watched"])
def test_a_side_of_which_nothing_is_known_does_not_pass_for_a_good_release(
    tables: Path, capsys: pytest.CaptureFixture[str], wrong: list[str],
) -> None:
    code, text, _ = asked(capsys, "diff", tables, "--before", "version=1.0", "--after", "version=20", *wrong)
    assert code == 3 and "othing to compare" in text, text


# Words -> a part of the one line on stderr.
WRONG: list[tuple[list[str], str]] = [
    (["why", "SRC", "--engine", "presto://h"], "engine: found 'presto://h', wanted duckdb"),
    (["why", "SRC", "--since", "soon"], "since: found 'soon', wanted a time before now like 90m, 24h, 7d"),
    (["why", "SRC", "--where", "versio = '1'"], 'Referenced column "versio" not found'),
    (["show", "SRC", "nothing"], "found 'nothing', which no cause has"),
    (["diff", "SRC", "--before", "version=1"], "found no --after, wanted --before and --after, as `--before version=4.1"),
    (["diff", "SRC"], "found no --before, wanted --before and --after"),
    (["sql", "SRC", "select * from read_text('/etc/passwd')"], "disabled by configuration"),
]


@pytest.mark.parametrize(("words", "wanted"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_argument_is_exit_code_2(tables: Path, capsys: pytest.CaptureFixture[str], words: list[str], wanted: str) -> None:
    code, out, err = asked(capsys, *(tables if word == "SRC" else word for word in words))
    assert (code, out) == (2, "") and wanted in err and err.startswith("dashcam: fleet: "), err


def test_nothing_to_ask_is_exit_code_3_and_no_cause_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = asked(capsys, "why", tmp_path)
    assert code == 3 and "no capture (*.dashcam)" in err
    drawn = Drawn(1, 1, 1, [])
    drawn.healthy(0, 0.5)
    store.write(tmp_path, drawn.tables())
    code, out, _ = asked(capsys, "why", tmp_path)
    assert code == 1 and "No captured request was slow." in out


def test_the_command_indexes_a_folder(bench: Bench) -> None:
    captures = bench.folder / "captures"
    captures.mkdir()
    (captures / "a.dashcam").write_bytes(golden("sleep-library"))
    (captures / "b.dashcam").write_bytes(b"junk")
    result = bench.dashcam("fleet", "index", "captures", "--json", "--jobs", "1")
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    assert {name: found[name] for name in ("files", "judged", "refused", "out")} == {
        "files": 2, "judged": 1, "refused": 1, "out": "captures/fleet-tables"}
    assert bench.dashcam("fleet", "--help").stdout.startswith("usage: dashcam fleet")
    assert bench.dashcam("fleet", "blame", "captures").returncode == 2


def test_without_the_extra_the_remedy_is_named(tables: Path) -> None:
    code = f"""
import sys
sys.modules["ibis"] = None
from dashcam._fleet import command
sys.exit(command.main(["why", {str(tables)!r}]))"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "-m pip install 'dashcam[fleet]'" in result.stderr, result.stderr
