"""`diff`: a regression in one version is found, and what only looks like one is not reported."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from dashcam._fleet.ask import comparing, statistics  # noqa: E402
from dashcam._fleet.rows import schema  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from dashcam._fleet.ask.differing import Diff  # noqa: E402
from fleets import BEGIN, Cause, Drawn  # noqa: E402

import dashcam  # noqa: E402

OLD, NEW = {"version": "1.0"}, {"version": "2.0"}


def canary(host: int, day: float) -> str:
    """Twelve of thirty hosts get version 2.0 after three of six days."""
    return "2.0" if host < 12 and day >= 3 else "1.0"


def compared(folder: Path, causes: list[Cause], **options: Any) -> Diff:
    """The difference between the versions of a fleet of 30 hosts and six days."""
    store.write(folder, Drawn(11, 30, 6, causes, versions=canary).tables())
    return dashcam.fleet(folder).diff(**(options or {"before": OLD, "after": NEW}))


def kinds(found: Diff) -> dict[str, str]:
    """Fingerprint -> kind."""
    return {row["fingerprint"]: row["kind"] for row in found.differences}


STEADY = [Cause("refresh", 2, 1.0), Cause("resize", 1, 1.5, kind="cpu")]


def test_causes_that_appeared_grew_and_vanished_are_found(tmp_path: Path) -> None:
    found = compared(tmp_path, [
        *STEADY,
        Cause("fetch", 1, 1.5, versions=("2.0",), kind="downstream-wait"),
        Cause("encode", 1, 0.5, kind="gil-wait"), Cause("encode", 1, 3.0, versions=("2.0",), kind="gil-wait"),
        Cause("flush", 1, 1.5, versions=("1.0",), kind="disk-io"),
        # On three hosts, of which one has the new version.
        Cause("odd", 2, 1.0, hosts=(11, 20, 21), kind="sleep"),
    ])
    assert kinds(found) == {"fetch": "new", "encode": "worse", "flush": "gone"}
    [fetch] = found.found("new")
    assert [part["how"] for part in fetch["comparisons"]] == ["own control", "same hours"]
    for part in fetch["comparisons"]:
        assert part["before"]["incidents"] == 0 and part["after"]["hosts"] >= 8 and part["ratio"] is None
    assert fetch["p_worse"] < 0.01 and "own control: appeared; before 0 on 0 of" in found.text
    [encode] = found.found("worse")
    assert all(2 < part["ratio"] < 20 for part in encode["comparisons"])
    assert "moved_from" not in fetch, "another cause"


def test_what_did_not_change_is_not_reported(tmp_path: Path) -> None:
    # The canaries are the hosts that were troubled before: each is its own control.
    found = compared(tmp_path, [*STEADY, Cause("odd", 2, 1.5, hosts=(1, 2, 3, 4, 5), kind="sleep")])
    assert found.differences == [], found.text
    assert "No difference that is sure" in found.text


def test_a_new_cause_on_two_hosts_is_theirs_and_not_the_versions(tmp_path: Path) -> None:
    found = compared(tmp_path, [*STEADY, Cause("odd", 3, 2.0, versions=("2.0",), hosts=(3, 4), kind="sleep")])
    assert kinds(found) == {"odd": "local"}


def test_a_renamed_function_is_shown_as_moved(tmp_path: Path) -> None:
    found = compared(tmp_path, [*STEADY, Cause("price", 1, 1.5, versions=("1.0",)), Cause("cost", 1, 1.5, versions=("2.0",))])
    assert kinds(found) == {"cost": "moved"}
    [row] = found.differences
    assert row["moved_from"] == "price" and "was price, which vanished" in found.text
    for part in row["comparisons"]:
        assert part["before"]["incidents"] > 0 and part["after"]["incidents"] > 0 and 0.5 < part["ratio"] < 2
    assert not found.found("worse", "new"), "no regression"


def test_a_renamed_function_is_the_one_that_is_most_alike(tmp_path: Path) -> None:
    # Another cause vanished, too; it was in the same file.
    found = compared(tmp_path, [
        *STEADY, Cause("price", 1, 1.5, versions=("1.0",), file="shop.py"), Cause("quote", 1, 1.5, versions=("1.0",), file="bank.py"),
        Cause("cost", 1, 1.5, versions=("2.0",), file="shop.py"), Cause("fetch", 1, 1.5, versions=("2.0",), kind="downstream-wait"),
    ])
    assert kinds(found) == {"cost": "moved", "quote": "gone", "fetch": "new"} and found.found("moved")[0]["moved_from"] == "price"


def test_a_new_cause_that_is_more_than_what_vanished_is_new(tmp_path: Path) -> None:
    found = compared(tmp_path, [*STEADY, Cause("price", 1, 1.0, versions=("1.0",)), Cause("cost", 1, 4.0, versions=("2.0",))])
    assert kinds(found) == {"price": "gone", "cost": "new"}


def test_a_cause_that_moved_and_grew_is_worse(tmp_path: Path) -> None:
    # Below the ratio that makes it another one, and sure: each host has many.
    found = compared(tmp_path, [Cause("refresh", 2, 4.0, kind="cpu"), Cause("price", 1, 7.0, versions=("1.0",)),
                                Cause("cost", 1, 13.0, versions=("2.0",))])
    assert kinds(found) == {"cost": "worse"} and found.found("worse")[0]["moved_from"] == "price"


def test_the_time_before_and_after_an_instant(tmp_path: Path) -> None:
    causes = [*STEADY, Cause("fetch", 1, 1.0, days=(3.0, 9.0), kind="downstream-wait")]
    found = compared(tmp_path, causes, at=BEGIN + datetime.timedelta(days=3), window="3d")
    assert kinds(found) == {"fetch": "new"}
    assert found.sides["before"]["name"] == "2025-11-24 00:00 to 2025-11-27 00:00 UTC"


def test_sides_that_cannot_be_compared(tmp_path: Path) -> None:
    store.write(tmp_path, Drawn(1, 3, 2, STEADY).tables())
    fleet = dashcam.fleet(tmp_path)
    text = fleet.diff(before=OLD, after=NEW).text
    assert "after: version 2.0: no capture, no counts of requests" in text
    assert "a side without captures and counts may be healthy, or not recorded" in text
    for wrong in ({"before": OLD}, {"before": {"colour": "red"}, "after": NEW}, {"at": "2025-11-25", "before": OLD}, {"at": "noon"},
                  {"at": "2025-11-25", "window": "long"}):
        with pytest.raises(ValueError):
            fleet.diff(**wrong)


def test_the_same_hours_and_the_hosts_themselves_must_agree(tmp_path: Path) -> None:
    # It began everywhere on the day of the new version; and it was on these hosts before.
    found = compared(tmp_path, [*STEADY, Cause("peer", 1, 2.0, days=(3.0, 9.0)), Cause("odd", 1, 3.0, hosts=tuple(range(12)))])
    assert found.differences == [], found.text


def counted(folder: Path, hosts: range, version: str, days: tuple[float, float]) -> None:
    """Writes what these hosts counted of a version: 1,000 requests each, none of them captured."""
    begin, end = (BEGIN + datetime.timedelta(days=day) for day in days)
    columns = {column.name for column in schema.ROLLUPS.columns}
    rows = [dict.fromkeys(columns) | {
        "day": begin.date(), "service": "billy", "host": f"host-{host:04}", "version": version, "run": f"{version}-{host}", "number": 1,
        "is_last": True, "uri": "billy.rollups.log", "bytes": 1, "hour_utc": begin, "from_utc": begin, "to_utc": end, "request": "GET /",
        "total": 1000, "slow": 0, "excess_ns": 0, "failed": 0, "captured": 0, "suppressed": 0, "over_quota": 0,
    } for host in hosts]
    store.write(folder, {"rollups": pa.Table.from_pylist(rows, schema=schema.arrow(schema.ROLLUPS, folders=True))})


def test_a_release_that_was_counted_and_never_captured_is_seen(tmp_path: Path) -> None:
    store.write(tmp_path, Drawn(11, 12, 3, [Cause("refresh", 2, 4.0)]).tables())
    counted(tmp_path, range(12), "1.0", (0, 3))
    counted(tmp_path, range(12), "2.0", (3, 6))
    found = dashcam.fleet(tmp_path).diff(before=OLD, after=NEW)
    assert kinds(found) == {"refresh": "gone"}, found.text
    assert "after: version 2.0: no capture; 12,000 requests counted on 12 hosts\n" in found.text
    assert found.sides["after"] == {"name": "version 2.0", "services": ["billy"], "hosts": 12, "captures": 0, "requests": 12_000, "causes": 0}
    assert [row["how"] for row in found.compared] == ["own control"]
    other = dashcam.fleet(tmp_path).diff(before=OLD, after={"version": "3.0"})
    assert "after: version 3.0: no capture, no counts of requests\n" in other.text


def test_healthy_hosts_that_only_counted_are_compared(tmp_path: Path) -> None:
    # Two canaries of ten have a capture; the eight without one ran the version, too.
    store.write(tmp_path, Drawn(11, 20, 3, [Cause("refresh", 2, 4.0, hosts=(0, 1))], versions=lambda host, day: "2.0").tables())
    counted(tmp_path, range(10), "2.0", (0, 3))
    counted(tmp_path, range(10, 20), "1.0", (0, 3))
    found = dashcam.fleet(tmp_path).diff(before=OLD, after=NEW)
    [same] = found.compared
    assert (same["how"], same["before"]["hosts"], same["after"]["hosts"]) == ("same hours", 10, 10)
    assert kinds(found) == {"refresh": "local"}


def test_a_process_that_ends_beside_the_new_one_is_no_second_side() -> None:
    def row(first: float, last: float) -> dict[str, Any]:
        minute = datetime.timedelta(minutes=1)
        return {"first_utc": BEGIN + first * minute, "last_utc": BEGIN + last * minute, "captures": 0, "requests": 9}

    before, after = {f"h{i}": row(0, 605) for i in range(3)}, {f"h{i}": row(600, 1200) for i in range(3)}
    [own] = comparing.chosen(before, after, None, None)
    assert own.how == "own control" and own.spans[0].end == BEGIN + datetime.timedelta(minutes=602.5)
    [both] = comparing.chosen(before, {host: row(500, 1200) for host in after}, None, None)
    assert both.how == "other hours", "they ran both"


def test_pods_with_new_names_are_compared_in_other_hours(tmp_path: Path) -> None:
    causes = [Cause("refresh", 2, 2.0, hosts=tuple(range(20))), Cause("fetch", 1, 2.0, versions=("2.0",), hosts=tuple(range(10, 20)))]
    drawn = Drawn(2, 20, 6, causes, versions=lambda host, day: "2.0" if host >= 10 else "1.0")
    # The first ten hosts ran before day 3, the others after it.
    for name, rows in drawn.rows.items():
        drawn.rows[name] = [row for row in rows if (row["captured_utc"] >= BEGIN + datetime.timedelta(days=3)) == (row["version"] == "2.0")]
    store.write(tmp_path, drawn.tables())
    found = dashcam.fleet(tmp_path).diff(before=OLD, after=NEW)
    assert [row["how"] for row in found.compared] == ["other hours"]
    assert kinds(found) == {"fetch": "new"}


APART = [statistics.Unit(f"h{i}", i >= 20) for i in range(30)]
PAIRS = [statistics.Unit(f"h{i}", is_after) for is_after in (False, True) for i in range(10)]


def test_one_burst_on_one_host_is_no_regression() -> None:
    counts = np.zeros((30, 1))
    counts[25] = 12
    [found] = statistics.compare(APART, counts, "billy")
    # One host in three is on that side.
    assert 0.3 < found.p_worse < 0.37 and found.ratio == float("inf")


def test_equal_rates_are_no_difference_however_many_hosts_a_side_has() -> None:
    [found] = statistics.compare(APART, np.ones((30, 1)), "billy")
    assert (found.ratio, found.p_worse, found.p_better) == (1.0, 1.0, 1.0)


def test_a_host_on_both_sides_is_its_own_control() -> None:
    counts = np.array([[1.0 + host + unit.is_after] for unit in PAIRS for host in [int(unit.host[1:])]])
    [found] = statistics.compare(PAIRS, counts, "billy")
    assert found.p_worse < 0.01, "each host has one more, though hosts differ by ten"


def test_times_are_equal_before_and_after_a_change() -> None:
    def row(first: float, last: float) -> dict[str, Any]:
        day = datetime.timedelta(days=1)
        return {"first_utc": BEGIN + first * day, "last_utc": BEGIN + last * day, "captures": 99}

    before = {f"h{i}": row(0, 6) for i in range(3, 9)} | {f"h{i}": row(0.5, 4.5) for i in range(3)}
    after = {f"h{i}": row(5.5, 6) for i in range(3)}
    own, same = comparing.chosen(before, after, None, None)
    assert (own.how, same.how) == ("own control", "same hours")
    assert all(abs(span.length / datetime.timedelta(days=1) - 1) < 0.02 for span in own.spans), "from 5.0 to 6.0, and as long before"
    assert [unit.host for unit in same.units] == [*(f"h{i}" for i in range(3, 9)), "h0", "h1", "h2"]
    [back] = comparing.chosen({host: row(4, 6) for host in after}, {host: row(0, 3) for host in after}, None, None)
    assert back.spans[0].begin == back.spans[3].end == BEGIN + datetime.timedelta(days=3.5), "a version that was rolled back"


def test_discoveries_are_those_of_benjamini_and_hochberg() -> None:
    # From their article of 1995, at 5 %.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert statistics.discoveries(p_values) == [True] * 4 + [False] * 11
    assert statistics.discoveries([]) == []


def test_an_interval_is_wide_where_few_hosts_have_the_excess() -> None:
    totals = np.full(40, 10.0)
    even, odd = np.full(40, 2.0), np.zeros(40)
    even[::2] += 1.0
    odd[:4] = 2.5 * 10
    totals[:4] += 25
    low_even, high_even = statistics.shares(even[:, None], totals)[0] or (0, 0)
    low_odd, high_odd = statistics.shares(odd[:, None], totals)[0] or (0, 0)
    assert low_even < 0.2 < high_even and high_even - low_even < 0.1
    assert low_odd < 0.2 < high_odd and high_odd - low_odd > 0.2
    assert statistics.shares(even[:4, None], totals[:4]) == [None], "four hosts"
    assert statistics.shares(totals[:, None], totals) == [(1.0, 1.0)]


@pytest.mark.parametrize(("freedom", "wanted"), [(4, 2.776), (9, 2.262), (29, 2.045), (999, 1.962)])
def test_percentiles_of_students_t(freedom: int, wanted: float) -> None:
    assert statistics.student(freedom) == pytest.approx(wanted, rel=0.005)
