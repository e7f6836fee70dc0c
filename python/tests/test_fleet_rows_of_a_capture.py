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

from dashcam._fleet.rows import children, judging, schema  # noqa: E402
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


def test_a_file_that_takes_too_much_memory_or_time_is_refused(sleeper: Path) -> None:
    files = [children.File(sleeper, "one.dashcam", sleeper.stat().st_size)]
    [judged] = children.judge(files, jobs=1, limits=children.Limits(seconds=0.0))
    assert judged.rows["refused"].to_pylist()[0]["why"] == "was not judged in 0 s"
    # Less than the libraries have already: the first allocation fails.
    [judged] = children.judge(files, jobs=1, limits=children.Limits(memory=1 << 20))
    why = judged.rows["refused"].to_pylist()[0]["why"]
    assert "memory" in why, why


def test_the_page_has_the_columns_as_they_are_declared() -> None:
    whole = (GOLDEN.parents[1] / "docs" / "fleet-tables.md").read_text("utf-8")
    assert whole.partition("## Tables and columns\n\n")[2] == page(), "replace that part: python tests/tools/fleets.py"
