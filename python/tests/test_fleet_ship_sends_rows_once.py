"""`dashcam ship`: rows of a host's captures reach the fleet's tables, each once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from conftest import DASHCAM, Bench, wait_for  # noqa: E402
from dashcam._fleet.ship import command, shipping  # noqa: E402
from dashcam._fleet.ship.state import State, place  # noqa: E402
from dashcam._fleet.tables import places, store  # noqa: E402
from pyarrow import fs  # noqa: E402
from test_fleet_counts import line  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402

import dashcam  # noqa: E402


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two captures, two lines of counts, a file that is no capture and one that was cut."""
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "a.dashcam").write_bytes(golden("sleep-library"))
    (folder / "b.dashcam").write_bytes(golden("sleep-library", host="h2"))
    (folder / "junk.dashcam").write_bytes(b"junk")
    (folder / "cut.dashcam").write_bytes(golden("sleep-library")[:200])
    (folder / "billy.rollups.log").write_text(line(12, total=9) + line(13, number=2, total=5))
    return folder


def ship(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, what was sent, stderr."""
    code = command.main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def numbers(dest: places.Place) -> dict[str, int]:
    """Rows of each table at the destination."""
    return {name: store.read(dest, name).count_rows() for name in ("captures", "requests", "rollups", "refused")}


WHOLE = {"captures": 2, "requests": 2, "rollups": 2, "refused": 2}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command takes signals and gives way to others: not for this process."""
    monkeypatch.setattr(os, "nice", lambda by: by)
    kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in kept.items():
        signal.signal(name, handler)


def test_what_is_new_is_sent_once_and_answers_questions(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dest = tmp_path / "fleet"
    code, sent, err = ship(capsys, source, dest)
    assert (code, sent["captures"], sent["counts"], sent["refused"]) == (0, 2, 2, 2)
    assert "junk.dashcam: refused: " in err and "cut.dashcam: refused: " in err
    assert numbers(dest) == WHOLE
    assert ship(capsys, source, dest)[1] == {"schema": 1, "captures": 0, "counts": 0, "refused": 0, "files": 0}
    (source / "c.dashcam").write_bytes(golden("sleep-library", host="h3"))
    with open(source / "billy.rollups.log", "a") as log:
        log.write(line(14, number=3) + line(15, number=4)[:-9])
    assert ship(capsys, source, dest)[1]["counts"] == 1, "the last line is still being written"
    assert numbers(dest) == {"captures": 3, "requests": 3, "rollups": 3, "refused": 2}
    why = dashcam.fleet(dest).why()
    [cause] = why.causes
    assert (why.totals["captures"], cause["hosts"], why.totals["counts"][0]["total"]) == (3, 3, 14)
    assert cause["worst"]["on_host"] == os.uname().nodename
    assert f"worst: dashcam why a.dashcam (on {os.uname().nodename})" in why.text


def test_without_its_state_it_sends_the_same_files(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dest, state = tmp_path / "fleet", tmp_path / "state"
    ship(capsys, source, dest, "--state", state)
    first = sorted(dest.rglob("*.parquet"))
    state.unlink()
    ship(capsys, source, dest, "--state", state)
    assert sorted(dest.rglob("*.parquet")) == first and numbers(dest) == WHOLE


@pytest.mark.parametrize("damage", ["", "{", '{"schema": 2}', '{"schema": 1, "captures": [], "logs": {}, "batch": []}'])
def test_a_damaged_state_is_reported_and_all_is_sent_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    source, state = tmp_path / "captures", tmp_path / "state"
    source.mkdir()
    (source / "junk.dashcam").write_bytes(b"junk")
    state.write_text(damage)
    code, sent, err = ship(capsys, source, tmp_path / "fleet", "--state", state)
    assert (code, sent["refused"]) == (0, 1) and "found no state of `dashcam ship`" in err


# A process that is killed before the N-th file has its final name.
KILLED = """
import os, signal, sys
from dashcam._fleet.ship import command
link, left = os.link, [int(sys.argv[1])]
def killing(*words, **options):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    link(*words, **options)
os.link = killing
sys.exit(command.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("nth", [1, 4])
def test_killed_between_writing_and_naming_a_file_it_goes_on(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], nth: int) -> None:
    dest = tmp_path / "fleet"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(nth), str(source), str(dest)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list(dest.rglob("*.parquet"))) == nth - 1
    # What comes meanwhile is not in the batch that is sent again.
    (source / "aa.dashcam").write_bytes(golden("sleep-library", host="h3"))
    code, sent, _ = ship(capsys, source, dest)
    assert (code, sent["captures"]) == (0, 3)
    assert numbers(dest) == {"captures": 3, "requests": 3, "rollups": 2, "refused": 2}


class Failing:
    """A file system that fails so many times, then writes."""

    def __init__(self, folder: Path, failures: int) -> None:
        folder.mkdir(exist_ok=True)
        self.whole, self.left, self.written = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), failures, 0

    def open_output_stream(self, path: str) -> Any:
        """A file to write to."""
        if self.left > 0:
            self.left -= 1
            raise OSError("AWS Error SLOW_DOWN during PutObject operation: HTTP 503")
        self.written += 1
        self.whole.create_dir(os.path.dirname(path))
        return self.whole.open_output_stream(path)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"credentials may put only: {name}")


def shipper(source: Path, files: Failing, report: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> shipping.Shipper:
    """Sends to an object store; pauses take no time."""
    pauses = options.setdefault("asked", threading.Event())
    waits: list[float] = []
    monkeypatch.setattr(pauses, "wait", lambda seconds: waits.append(seconds))
    one = shipping.Shipper(source, places.Bucket("s3://b/fleet", files, "fleet"), State(place(source, "s3://b/fleet")), report=report, **options)
    one.waits = waits  # type: ignore[attr-defined]
    return one


def test_a_store_that_fails_is_tried_again_with_longer_pauses(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, lines = Failing(tmp_path / "store", 12), []
    one = shipper(source, files, lines.append, monkeypatch)
    sent = one.all(tries=None)
    assert sent.files == files.written > 4
    assert [text for text in lines if "503" in text] == [
        "s3://b/fleet: AWS Error SLOW_DOWN during PutObject operation: HTTP 503; tried again, at intervals of up to 300 s"]
    waits = one.waits  # type: ignore[attr-defined]
    assert len(waits) == 12 and all(0.5 * min(300, 2.0**nth) <= wait <= min(300, 2.0**nth) for nth, wait in enumerate(waits))
    assert numbers(tmp_path / "store" / "fleet") == WHOLE


def test_a_single_run_gives_up_and_the_next_one_sends_the_rest(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Failing(tmp_path / "store", 8)
    with pytest.raises(OSError, match="503"):
        shipper(source, files, print, monkeypatch).all()
    assert files.written == 0
    assert shipper(source, files, print, monkeypatch).all().captures == 2
    assert numbers(tmp_path / "store" / "fleet") == WHOLE


@pytest.mark.parametrize("how", ["a file", "a full disk"])
def test_a_folder_that_cannot_be_written_is_exit_code_3(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    dest = tmp_path / "fleet"
    monkeypatch.setattr(shipping, "PAUSE_S", 0.0)
    if how == "a file":
        dest.write_text("no folder")
    else:
        def full(*words: Any, **options: Any) -> Any:
            raise OSError(28, "No space left on device")
        monkeypatch.setattr(os, "fsync", lambda handle: full() if os.readlink(f"/proc/self/fd/{handle}").startswith(str(dest)) else None)
    code, sent, err = ship(capsys, source, dest)
    assert (code, sent) == (3, {})
    assert f"ship: {dest}: " in err and "tried again" in err
    assert not list(dest.rglob("part-*")) and not list(dest.rglob("*.tmp"))


def test_a_batch_is_bounded_and_a_capture_that_is_gone_is_none(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Failing(tmp_path / "store", 0)
    one = shipper(source, files, print, monkeypatch, batch=2)
    assert one.plan() and [part.uri for part in one.state.batch] == ["a.dashcam", "b.dashcam", "billy.rollups.log"]
    (source / "a.dashcam").unlink()
    sent = one.all()
    assert (sent.captures, sent.refused) == (1, 2)
    again = State(place(source, "s3://b/fleet"))
    assert set(again.captures) == {"b.dashcam", "cut.dashcam", "junk.dashcam"} or "a.dashcam" in again.captures
    assert not shipper(source, files, print, monkeypatch).plan()


def test_a_log_that_is_renamed_goes_on_where_it_was(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, dest = source / "billy.rollups.log", tmp_path / "fleet"
    ship(capsys, source, dest)
    with open(log, "a") as file:
        file.write(line(14, number=3))
    log.rename(source / "billy.rollups.log.1")
    log.write_text(line(16, number=5))
    assert ship(capsys, source, dest)[1]["counts"] == 2
    assert sorted(store.read(dest, "rollups").to_table()["number"].to_pylist()) == [1, 2, 3, 5]


def test_wrong_words_are_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, wanted in [
        ((tmp_path,), "wanted DEST"), ((tmp_path, "x", "--to", "y"), "found DEST twice"), ((tmp_path, "x", "--every", "soon"), "wanted 1s to 24h"),
    ]:
        assert command.main([str(word) for word in words]) == 2
        assert wanted in capsys.readouterr().err
    code, _, err = ship(capsys, tmp_path / "none" / "none", tmp_path)
    assert code == 3 and "found no folder" in err
    (tmp_path / "file").write_text("")
    code, _, err = ship(capsys, tmp_path, tmp_path / "fleet", "--state", tmp_path / "file" / "state")
    assert code == 3 and "file/state: Not a directory; wanted a place that can be written (--state FILE)" in err
    code, _, err = ship(capsys, tmp_path, "ftp://x/y")
    assert code == 3 and "wanted a folder, or an address like s3://bucket/fleet" in err


def test_as_a_sidecar_it_runs_until_sigterm_and_sends_the_last_captures(bench: Bench) -> None:
    folder = bench.folder / "captures"
    folder.mkdir()
    (folder / "a.dashcam").write_bytes(golden("sleep-library"))
    one = bench.start([DASHCAM, "ship", "captures", "fleet", "--every", "1h"])
    dest = bench.folder / "fleet"
    wait_for("the rows", lambda: list(dest.glob("captures/*/*/part-*.parquet")))
    # As a hook, another one waits until that is done.
    other = bench.start([DASHCAM, "ship", "--to", "fleet", "captures/a.dashcam"])
    (folder / "b.dashcam").write_bytes(golden("sleep-library", host="h2"))
    err = bench.stop(one)
    assert one.returncode == 0, err
    assert other.wait(60) == 0
    assert numbers(dest)["captures"] == 2


def test_asked_to_end_it_does_not_wait_for_a_store_that_fails(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asking(*words: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError("HTTP 503")

    monkeypatch.setattr(store, "put", asking)
    code, sent, err = ship(capsys, source, tmp_path / "fleet", "--every", "1h")
    assert (code, sent) == (0, {}) and "ended before all was sent, the next run sends the rest: HTTP 503" in err
    monkeypatch.undo()
    monkeypatch.setattr(os, "nice", lambda by: by)
    assert ship(capsys, source, tmp_path / "fleet")[1]["captures"] == 2


def test_redaction_lets_no_planted_value_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "a.dashcam").write_bytes(golden(
        "sleep-library", labels={"version": "4.2", "owner": "s3cret-label", "k8s.pod.name": "shop-1"}, reason="s3cret reason"))
    (folder / "junk.dashcam").write_bytes(b"s3cret-junk")
    log = line(12, total=9).replace("GET /", "GET /users/314159/s3cret@example.org?token=s3cret")
    (folder / "billy.rollups.log").write_text(log + "s3cret\n")
    for redact, words in ((False, ["--no-redact"]), (True, [])):
        dest = tmp_path / f"fleet-{redact}"
        assert ship(capsys, folder, dest, *words)[0] == 0
        whole = json.dumps([store.read(dest, name).to_table().to_pylist() for name in ("captures", "findings", "requests", "parts", "rollups", "refused")],
                           default=str)
        assert ("s3cret" in whole) is not redact
        assert "4.2" in whole and "shop-1" in whole
    assert "GET /users/:n/:email" in whole and str(folder) not in whole


def test_each_column_is_sent_or_left_out_on_purpose() -> None:
    from dashcam._fleet.rows import schema
    from dashcam._fleet.ship import redacting

    left_out = {(table.name, column.name) for table in schema.TABLES for column in table.columns} - {
        (name, column) for name, columns in redacting._COLUMNS.items() for column in columns}
    assert left_out == {("findings", "target"), ("parts", "target")}


@pytest.mark.parametrize(("name", "sent"), [
    ("GET /orders/<int:n>", "GET /orders/<int:n>"), ("GET /v2/orders", "GET /v2/orders"), ("checkout", "checkout"),
    ("GET /orders/123", "GET /orders/:n"), ("GET /f/0f8fad5b-d9cb-469f-a165-70867728950e", "GET /f/:id"), ("POST /k/ab12cd34ef56ab12", "POST /k/:id"),
    ("GET /a?user=42", "GET /a"), ("mail bob@example.org", "mail :email"), ("load order-1234567", "load :id"), ("load x1 of 12345", "load x1 of :n"), (None, None),
])
def test_names_of_requests_lose_what_looks_like_a_value(name: str | None, sent: str | None) -> None:
    from dashcam._fleet.ship import redacting

    assert redacting.name(name) == sent
