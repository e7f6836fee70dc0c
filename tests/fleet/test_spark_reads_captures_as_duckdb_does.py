"""Tables of captures themselves (`raw.waits`, ...) on DuckDB and on a Spark cluster: the same cells."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cells import differing
from cluster import Cluster
from conftest import Both
from dashcam._fleet.fleet import Fleet
from dashcam._fleet.rows import spooling
from dashcam._fleet.tables import indexing
from planted import ROOT

HOSTS = 12
# They have rows in the tables in which simulated captures have none: spans, tasks, collections.
GOLDEN = ("gevent_block", "field-ledger-actor", "subprocess-wait-run-off")
# Links of spans: none of these captures has one.
EMPTY = ("links",)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory, spark: Cluster) -> Iterator[Both]:
    """Captures of simulated hosts and of real programs, one of which was cut off after its rows were
    written."""
    folder = tmp_path_factory.mktemp("simulated")
    command = [ROOT / "target" / "debug" / "dashcam-sim", "fleet", "--seed", "7", "--hosts", str(HOSTS), "--out", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name in GOLDEN:
        data = gzip.decompress((ROOT / "tests" / "captures" / f"{name}.dashcam.gz").read_bytes())
        # Behind the simulated ones, of which one is damaged.
        (folder / f"z-{name}.dashcam").write_bytes(data)
    indexing.index(folder, folder / indexing.INSIDE)
    [first, *_] = sorted(folder.rglob("*.dashcam"))
    # Of the same size: it is not new.
    first.write_bytes(b"\0" * first.stat().st_size)
    with Fleet(folder) as here, Fleet(folder, engine=spark.master) as there:
        yield Both(folder / indexing.INSIDE, here, there)


def answer(fleet: Fleet, query: str) -> list[dict[str, Any]]:
    """The rows of a query, in an order of their own; times without their zone."""
    found = fleet.sql(query)
    names = [column[0] for column in found.description]
    rows = [{name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for name, value in zip(names, row)} for row in found.fetchall()]
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


@pytest.mark.parametrize("table", spooling.names())
def test_a_table_of_captures_has_the_same_rows(simulated: Both, table: str) -> None:
    query = f"select * from raw.{table}"
    own = simulated.duckdb.raw(table)
    assert simulated.spark.raw(table).columns == own.columns
    compared, wrong = differing(answer(simulated.spark, query), answer(simulated.duckdb, query))
    print(f"raw.{table}: {compared} cells")
    assert (compared > len(own.columns) or table in EMPTY) and not wrong, wrong[:20]
    assert simulated.spark.notes[-1] == simulated.duckdb.notes[-1]


def test_tables_of_captures_are_joined_with_others_and_refused_ones_are_rows(simulated: Both) -> None:
    query = ("select host, count(*) as n, sum(waits.duration_ns) as ns from raw.waits join raw.requests r using (capture_id, request_id, host) "
             "join captures c using (capture_id, host) where c.slow_requests > 0 group by host")
    asked = answer(simulated.spark, query)
    assert len(asked) > 3 and asked == answer(simulated.duckdb, query)
    [row] = answer(simulated.spark, "select * from refused")
    assert [row] == answer(simulated.duckdb, "select * from refused") and "not a dashcam capture" in row["why"]
    assert "1 refused (table `refused`)" in simulated.spark.notes[-1]


def test_a_table_of_captures_is_an_expression(simulated: Both) -> None:
    found = [fleet.raw("waits").duration_ns.sum().to_pyarrow().as_py() for fleet in (simulated.spark, simulated.duckdb)]
    assert found[0] == found[1] > 0


def test_a_query_that_creates_a_table_leaves_nothing_in_the_working_folder(both: Both) -> None:
    before = set(os.listdir())
    both.spark.sql("create table left_behind using parquet as select 1 as one")
    assert set(os.listdir()) == before
    both.spark.sql("drop table left_behind")
    assert Path(both.spark._engine.session.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) != Path("spark-warehouse").absolute()
