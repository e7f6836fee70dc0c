"""A capture becomes rows by one pure function; a file that is none becomes a row of `refused`."""

from __future__ import annotations

import datetime
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from dashcam._fleet.rows import children, judging, parts, schema  # noqa: E402
from fleets import MAGIC, clone, page  # noqa: E402

import dashcam  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "captures"
AT_NS = 1_763_942_400 * 10**9


def golden(name: str, **changes: Any) -> bytes:
    """A golden capture, of another host, time and version."""
    whole = gzip.decompress((GOLDEN / f"{name}.dashcam.gz").read_bytes())
    given: dict[str, Any] = {"host": "h1", "service": "billy", "start_epoch_ns": AT_NS, "labels": {"version": "4.2"}}
    return clone(whole, **(given | changes))


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    """A capture with one slow request, which slept."""
    path = tmp_path / "one.dashcam"
    path.write_bytes(golden("sleep-library", labels={"service.version": "4.2", "deployment.environment": "prod", "n": 7}))
    return path


def test_rows_are_what_the_verdict_says(sleeper: Path) -> None:
    rows = judging.rows(sleeper, "a/one.dashcam")
    verdict = dashcam.open(sleeper, native_names=False).why().json()
    [capture], [finding], [request] = (rows[name].to_pylist() for name in ("captures", "findings", "requests"))
    [cause] = verdict["causes"]
    assert (finding["fingerprint"], finding["cause"], finding["summary"]) == (cause["fingerprint"], "sleep", cause["summary"])
    assert finding["excess_ns"] == cause["excess_ns"] > 0
    assert capture["excess_ns"] == request["excess_ns"] == verdict["requests"]["excess_ns"] == finding["excess_ns"] + capture["unexplained_ns"]
    assert (capture["uri"], capture["bytes"]) == ("a/one.dashcam", sleeper.stat().st_size)
    assert capture["first_slow_utc"] == request["begin_utc"] == finding["first_utc"]
    assert request["trace_id"] == cause["trace_ids"][0]
    for row in (capture, finding, request):
        assert (row["host"], row["service"], row["day"]) == ("h1", "billy", datetime.date(2025, 11, 24))
        assert (row["version"], row["environment"], row["region"]) == ("4.2", "prod", None)
    assert dict(capture["labels"]) == {"service.version": "4.2", "deployment.environment": "prod"}, "texts only"


def test_the_same_file_gives_the_same_rows_here_and_in_a_child_and_elsewhere(sleeper: Path, tmp_path: Path) -> None:
    here = judging.rows(sleeper, "one.dashcam")
    other = tmp_path / "elsewhere" / "copy.dashcam"
    other.parent.mkdir()
    other.write_bytes(sleeper.read_bytes())
    [judged] = children.judge([children.File(other, "one.dashcam", other.stat().st_size)], jobs=1)
    assert judged.rows.keys() == here.keys()
    for name, table in here.items():
        assert table.equals(judged.rows[name]), name
        assert table.schema.equals(schema.arrow(schema.named(name), folders=True))
    assert "ns" not in {str(field.type) for field in here["captures"].schema} and "timestamp[us]" in str(here["captures"].schema)


# What a file holds -> a part of why it is refused.
BROKEN = {
    "empty": (b"", "the file is empty"),
    "garbage": (bytes(range(256)) * 40, "not a dashcam capture"),
    "no meta": (golden("sleep-library")[:40], "damaged beyond reading"),
    "no time": (golden("sleep-library", start_epoch_ns=0), "wanted a time from 2000 to 2099"),
    "far future": (golden("sleep-library", start_epoch_ns=2**63), "wanted a time from 2000 to 2099"),
    "meta is a list": (MAGIC + b"META" + struct.pack("<II", 2, zlib.crc32(b"[]", zlib.crc32(b"META" + struct.pack("<I", 2)))) + b"[]",
                       "wanted a time from 2000 to 2099"),
    "large": (b"x" * 100_001, "found 100001 bytes, wanted at most 100000"),
}


def test_what_is_no_capture_is_a_row_of_refused_and_ends_nothing(tmp_path: Path, sleeper: Path) -> None:
    files = []
    for name, (data, _) in BROKEN.items():
        path = tmp_path / f"{name}.dashcam"
        path.write_bytes(data)
        files += [children.File(path, path.name, len(data)), children.File(sleeper, "one.dashcam", sleeper.stat().st_size)]
    files.append(children.File(tmp_path / "gone.dashcam", "gone.dashcam", 5))
    judged = list(children.judge(files, jobs=2, limits=children.Limits(bytes_max=100_000)))
    assert [one.file for one in judged] == files, "in the order of the files"
    whys = {}
    for one in judged:
        if one.file.path == sleeper:
            assert one.rows["findings"].num_rows == 1
        else:
            [row] = one.rows["refused"].to_pylist()
            whys[row["uri"]] = row["why"]
    assert "No such file" in whys.pop("gone.dashcam")
    for name, (_, why) in BROKEN.items():
        assert why in whys[f"{name}.dashcam"], whys
    assert not any(str(tmp_path) in why for why in whys.values()), "a row does not depend on the folder"


def test_a_damaged_capture_is_judged_by_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "cut.dashcam"
    path.write_bytes(golden("damaged-lock_chain-cut-at-30"))
    [capture] = judging.rows(path, "cut.dashcam")["captures"].to_pylist()
    assert capture["damage"] and capture["damage"][0].startswith("cut off at byte")


def test_hostile_text_is_bounded_and_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "hostile.dashcam"
    labels = {"version": "\x1b[2J" + "v" * 5000, "region": "';drop table captures;--", "list": [1]}
    path.write_bytes(golden("sleep-library", service="../../etc/\x00", host="h" * 10_000, labels=labels))
    [capture] = judging.rows(path, "hostile.dashcam")["captures"].to_pylist()
    assert len(capture["host"]) == len(capture["version"]) == schema.TEXT_MAX
    assert capture["service"].startswith("../../etc/") and capture["region"] == labels["region"]
    json.dumps(capture, default=str).encode("utf-8")


def test_a_file_has_its_cpu_time_on_a_crowded_machine() -> None:
    used, clock = [5.0], [100.0]
    deadline = children.Deadline(lambda: used[0], 60.0, lambda: clock[0])
    assert deadline.left_s() == 60.0
    # It had no CPU all the while.
    used[0], clock[0] = 6.0, 300.0
    assert deadline.left_s() == 59.0
    used[0] = 65.0
    assert deadline.left_s() == 0.0
    used[0], clock[0] = 6.0, 700.0
    assert deadline.left_s() == 0.0


def test_a_file_that_takes_too_much_memory_or_time_is_refused(sleeper: Path) -> None:
    files = [children.File(sleeper, "one.dashcam", sleeper.stat().st_size)]
    [judged] = children.judge(files, jobs=1, limits=children.Limits(seconds=0.0))
    assert judged.rows["refused"].to_pylist()[0]["why"] == "was not read in 0 s of CPU time"
    # Less than the libraries have already: the first allocation fails.
    [judged] = children.judge(files, jobs=1, limits=children.Limits(memory=1 << 20))
    why = judged.rows["refused"].to_pylist()[0]["why"]
    assert "memory" in why, why


def test_the_page_has_the_columns_as_they_are_declared() -> None:
    whole = (GOLDEN.parents[1] / "docs" / "fleet-tables.md").read_text("utf-8")
    assert whole.partition("## Tables and columns\n\n")[2] == page(), "replace that part: python tests/tools/fleets.py"


@pytest.mark.parametrize("name", ["sleep-library", "lock_chain", "pool_leaked"])
def test_parts_of_a_request_add_up_to_its_duration(tmp_path: Path, name: str) -> None:
    path = tmp_path / "one.dashcam"
    path.write_bytes(golden(name))
    rows = {table: found.to_pylist() for table, found in judging.rows(path, "one").items()}
    durations = {row["request_id"]: row["duration_ns"] for row in rows["requests"]}
    sums: dict[int, int] = {}
    for row in rows["parts"]:
        sums[row["request_id"]] = sums.get(row["request_id"], 0) + row["duration_ns"]
    assert sums.keys() == durations.keys() and all(sums[one] == pytest.approx(durations[one], rel=0.01) for one in sums)
    [first] = [row for row in rows["findings"] if row["rank"] == 1]
    found = {row["fingerprint"] for row in rows["parts"]}
    assert first["fingerprint"] in found and found - {None} <= {row["fingerprint"] for row in rows["findings"]}


def interval(request: int, place: str, duration_ns: int, cause: str = "cpu", **others: Any) -> dict[str, Any]:
    """A row of the reader's table `pieces`."""
    return {"request_id": request, "is_slow": True, "duration_ns": duration_ns, "cause": cause, "place": place, "target": None,
            "culprit_place": None} | others


def test_the_smallest_parts_are_one() -> None:
    pieces = [interval(1, f"a.py:{n} f{n}()", 100 - n) for n in range(40)] + [interval(1, "a.py:0 f0()", 50), interval(2, "b.py:1 g()", 7, is_slow=False)]
    found = parts.parts(pieces, [])
    assert [row["number"] for row in found] == list(range(1, parts.PARTS_MAX + 1))
    assert (found[0]["place"], found[0]["duration_ns"], found[0]["intervals"]) == ("a.py:0 f0()", 150, 2)
    assert (found[-1]["cause"], found[-1]["place"], found[-1]["intervals"]) == ("rest", None, 41 - 16)
    assert sum(row["duration_ns"] for row in found) == sum(100 - n for n in range(40)) + 50


def test_a_part_has_the_fingerprint_of_its_cause_and_place() -> None:
    nobody = {"culprit_function": None, "culprit_file": None}
    causes = [
        {"cause": "cpu", "file": "/srv/a.py", "function": "f", "fingerprint": "one"} | nobody,
        {"cause": "lock-wait", "file": "a.py", "function": "g", "fingerprint": "two", "culprit_file": "b.py", "culprit_function": "h"},
        {"cause": "lock-wait", "file": "a.py", "function": "g", "fingerprint": "three", "culprit_file": "b.py", "culprit_function": "k"},
        {"cause": "unknown", "file": None, "function": None, "fingerprint": "four"} | nobody,
    ]
    wanted = [
        ("cpu", "a.py:9 f()", None, "one"), ("cpu", "a.py:9 f()", "z.py:1 z()", "one"), ("sleep", "a.py:9 f()", None, None),
        ("lock-wait", "a.py:3 g()", "b.py:8 h()", "two"), ("lock-wait", "a.py:3 g()", "b.py k()", "three"), ("lock-wait", "a.py:3 g()", None, None),
        ("unknown", None, None, "four"),
    ]
    for cause, place, culprit, fingerprint in wanted:
        [row] = parts.parts([interval(1, place, 5, cause, culprit_place=culprit)], causes)  # type: ignore[arg-type]
        assert row["fingerprint"] == fingerprint, (cause, place, culprit)
