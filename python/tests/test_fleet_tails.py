"""p99.9 of a service, with and without a cause, from histograms that processes counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import ibis  # noqa: E402
import numpy as np  # noqa: E402
from dashcam._fleet.ask import tails  # noqa: E402
from dashcam._fleet.rows import counting  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import Drawn, S  # noqa: E402

import dashcam  # noqa: E402

BEGIN_NS = 1_763_942_400 * S
MS = S // 1000


def fleet(folder: Path, durations: dict[int, int], **drawn: list[float]) -> Any:
    """A service that counted so many requests of each duration; captures of causes with their
    excess in seconds."""
    rows = Drawn(1, 1, 1, [], unexplained=0.0)
    for nth, (name, excess) in enumerate(drawn.items()):
        rows.plant(name, excess, day=0.51 + nth / 1000, first_request=100 * nth)
    store.write(folder / "fleet-tables", rows.tables())
    counts = dict.fromkeys(counting.COUNTS, 0) | {"total": sum(durations.values()), "excess_ns": S,
                                                  "slow": sum(count for ns, count in durations.items() if ns > S // 2)}
    histogram: dict[int, int] = {}
    for ns, count in durations.items():
        histogram[tails.bucket_of(ns)] = histogram.get(tails.bucket_of(ns), 0) + count
    request = {"name": "GET /", **counts, "typical_ns": 10 * MS, "limit_ns": S // 2, "histogram": [list(pair) for pair in histogram.items()]}
    (folder / "billy.rollups.log").write_text(json.dumps({
        "schema": 1, "service": "billy", "host": "host-0000", "pid": 100, "started_epoch_ns": BEGIN_NS, "run": "a", "number": 1, "last": True,
        "from_epoch_ns": BEGIN_NS + 12 * 3600 * S, "to_epoch_ns": BEGIN_NS + 13 * 3600 * S - 1, "version": "0.1.0",
        "labels": {"version": "1.0"}, "requests": [request]}) + "\n")
    return dashcam.fleet(folder)


def by_cause(found: Any) -> dict[str, tuple[float, float]]:
    """p99.9 now and without it, in ms."""
    return {row["fingerprint"]: (row["p999_ns"] / MS, row["p999_without_ns"] / MS) for row in found.causes}


def test_without_the_cause_of_the_tail_the_tail_is_that_of_the_others(tmp_path: Path) -> None:
    # Of 100,000 requests 300 took 2.01 s, by refresh, and 50 took 1.01 s, by resize.
    found = fleet(tmp_path, {10 * MS: 99_650, 2010 * MS: 300, 1010 * MS: 50}, refresh=[2.0, 2.0, 2.0, 2.0, 2.0, 2.0], resize=[1.0]).why()
    causes = by_cause(found)
    now, without = causes["refresh"]
    assert now == pytest.approx(2010, rel=0.07)
    assert without == pytest.approx(10, rel=0.07), "50 of 100,000 are fewer than one in a thousand"
    # The other cause is not in the tail.
    assert causes["resize"][0] == causes["resize"][1] == now
    assert f"p99.9 of billy: {now / 1000:.3g} s, {without:.3g} ms without this cause" in found.text


def test_what_a_request_waited_else_stays(tmp_path: Path) -> None:
    # As many by each; without one of them the other is the tail.
    found = fleet(tmp_path, {10 * MS: 99_000, 2010 * MS: 500, 1010 * MS: 500}, refresh=[2.0], resize=[1.0]).why()
    causes = by_cause(found)
    assert causes["refresh"][1] == pytest.approx(1010, rel=0.07)
    assert causes["resize"][1] == pytest.approx(2010, rel=0.07)


def test_a_cause_is_shown_with_the_tail(tmp_path: Path) -> None:
    shown = fleet(tmp_path, {10 * MS: 99_000, 2010 * MS: 1000}, refresh=[2.0]).show("refresh")
    assert shown.json()["p999_without_ns"] / MS == pytest.approx(10, rel=0.07)
    assert "without this cause" in shown.text


def test_too_few_requests_have_no_percentile_of_one_in_a_thousand(tmp_path: Path) -> None:
    found = fleet(tmp_path, {10 * MS: 990, 2010 * MS: 9}, refresh=[2.0]).why()
    assert [row["p999_ns"] for row in found.causes] == [None] and "p99.9" not in found.text


def test_the_bucket_of_a_time_is_the_one_that_the_recorder_counts_it_in(tmp_path: Path) -> None:
    times = [0, 1, 8191, 8192, 8193, 2**43 - 1, 2**43, 2**50, *(2**bits + less for bits in range(14, 43) for less in (-1, 0, 3))]
    times += [int(tails.begin_ns(at)) - 1 for at in range(2, counting.BUCKETS)]
    table = fleet(tmp_path, {10 * MS: 1000}, refresh=[1.0])._engine.stored("captures").limit(1)
    asked = table.select(ns=ibis.literal(times, type="array<int64>").unnest())
    rows = asked.mutate(found=tails._bucket(asked.ns)).to_pyarrow().to_pylist()
    assert len(rows) == len(times)
    # As docs/rollups.md says it, one after the other.
    wanted = {ns: max(at for at in range(counting.BUCKETS) if tails.begin_ns(at) <= ns) for ns in times}
    assert [row for row in rows if row["found"] != wanted[row["ns"]]] == []
    assert {ns: tails.bucket_of(ns) for ns in times} == wanted


def test_a_bucket_gives_no_more_than_it_has() -> None:
    counts = np.zeros(counting.BUCKETS)
    counts[300] = 10
    found = tails.after(counts, [tails.Move(300, 100, 30), tails.Move(300, 50, 10)])
    assert found[300] == 0 and found[100] == pytest.approx(7.5) and found[50] == pytest.approx(2.5)
