"""The same rows in other files, and some of them twice: the same answers, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.tables import duck, store  # noqa: E402
from fleets import Cause, Drawn  # noqa: E402

CAUSES = [
    Cause("refresh", 2.0, 1.5), Cause("fetch", 1.0, 2.0, versions=("2.0",), kind="downstream-wait"),
    Cause("odd", 2.0, 1.0, hosts=(7, 8), kind="sleep"), Cause("refresh", 0.8, 0.5, service="shop"),
]


def drawn() -> dict[str, pa.Table]:
    """The rows of 9 hosts and 2 days; two captures of a process share requests."""
    fleet = Drawn(4, 9, 2, CAUSES, versions=lambda host, day: "2.0" if host < 5 and day >= 1 else "1.0")
    for day in (0.5, 0.501):
        fleet.plant("nap", [2.0, 3.0], day=day, first_request=5_000_000, begin_day=0.499)
    return fleet.tables()


def answers(fleet: Fleet) -> list[str]:
    """The answers to all verbs as text."""
    sides = [{"version": "1.0"}, {"version": "2.0"}]
    found = [fleet.why(top=2).text, fleet.why(by="version").text, fleet.trend(by="hour").text, fleet.diff(sides[0], sides[1]).text,
             fleet.show("nap").text, fleet.view()]
    return [text.replace(fleet.uri, "FLEET") for text in found]


def changed(table: pa.Table, **columns: list[Any]) -> pa.Table:
    """The table with other values in some columns."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))
    return table


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The answers of tables that fit into memory."""
    folder = tmp_path_factory.mktemp("memory") / "fleet"
    store.write(folder, drawn())
    fleet = Fleet(folder)
    assert not fleet._engine.is_once("findings")
    return answers(fleet)


def test_one_file_in_each_folder(tmp_path: Path, wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "SMALL_BYTES", 0)
    store.write(tmp_path / "fleet", drawn())
    fleet = Fleet(tmp_path / "fleet")
    assert fleet._engine.is_once("findings")
    assert answers(fleet) == wanted


def test_several_files_and_rows_that_are_there_twice(tmp_path: Path, wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "SMALL_BYTES", 0)
    rows = drawn()
    for part in (slice(None), slice(0, None, 3), slice(1, None, 2)):
        store.write(tmp_path / "fleet", {name: table.take(list(range(*part.indices(table.num_rows)))) for name, table in rows.items()})
    fleet = Fleet(tmp_path / "fleet")
    assert not fleet._engine.is_once("findings")
    assert answers(fleet) == wanted


def test_findings_of_a_capture_that_is_not_listed_do_not_count(tmp_path: Path, wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # `captures` is written last: a job was killed before, or judged again by other rules.
    monkeypatch.setattr(duck, "SMALL_BYTES", 0)
    rows = drawn()
    again = {name: changed(rows[name], rules_version=["9.9.9"] * rows[name].num_rows) for name in ("findings", "requests", "parts")}
    again["findings"] = changed(again["findings"], excess_ns=[2 * ns for ns in again["findings"]["excess_ns"].to_pylist()])
    lost = changed(rows["findings"], capture_id=[f"{nth:032x}" for nth in range(10**6, 10**6 + rows["findings"].num_rows)])
    for written in (again, {"findings": lost}, rows):
        store.write(tmp_path / "fleet", written)
    assert answers(Fleet(tmp_path / "fleet")) == wanted


def test_a_file_has_a_row_once_whatever_is_written(tmp_path: Path) -> None:
    rows = drawn()
    store.write(tmp_path / "once", rows)
    store.write(tmp_path / "twice", {name: pa.concat_tables([table, table]) for name, table in rows.items()})
    for name, table in rows.items():
        counts = [sum(pq.ParquetFile(file).metadata.num_rows for file in store.listed(tmp_path / folder, name)) for folder in ("once", "twice")]
        assert counts == [table.num_rows] * 2
