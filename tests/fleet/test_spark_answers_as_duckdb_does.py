"""Every question on DuckDB and on a Spark standalone cluster: the same cells."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cells import differing
from cluster import Cluster
from conftest import Both
from dashcam._fleet.ask import page, questions
from dashcam._fleet.fleet import NAMES, Fleet
from dashcam._fleet.tables import store
from planted import SERVICES, drawn

OLD, NEW = {"version": "1.0"}, {"version": "2.0"}
AT = "2025-11-25T12:00"
Question = Callable[[Fleet], Any]


def all_questions() -> dict[str, Question]:
    """Every question of the command, in every form."""
    found: dict[str, Question] = {"why": lambda fleet: fleet.why(top=1000).json()}
    for by in questions.BY:
        found[f"why --by {by}"] = lambda fleet, by=by: fleet.why(by=by, top=1000).json()
    for by in ("day", "hour"):
        found[f"trend --by {by}"] = lambda fleet, by=by: fleet.trend(by=by, top=1000).json()
    found["diff of versions"] = lambda fleet: fleet.diff(before=OLD, after=NEW).json()
    found["diff at a time"] = lambda fleet: fleet.diff(at=AT, window="24h").json()
    found["show"] = shown
    found["view"] = lambda fleet: page.data(fleet._asked(), "a fleet", 1000, None)
    return found


def shown(fleet: Fleet) -> list[Any]:
    """What `show` says of the most expensive causes that have a fingerprint of their own."""
    causes = fleet.why(top=1000).causes
    names = [row["fingerprint"] for row in causes]
    return [fleet.show(name).json() for name in names if names.count(name) == 1][:4]


def rows(fleet: Fleet, name: str) -> list[dict[str, Any]]:
    """A table's rows in an order of their own."""
    return sorted(fleet.tables[name].to_pyarrow().to_pylist(), key=lambda row: sorted((key, str(value)) for key, value in row.items()))


@pytest.mark.parametrize("name", all_questions())
def test_a_question_has_the_same_answer(both: Both, name: str) -> None:
    ask = all_questions()[name]
    compared, wrong = differing(ask(both.spark), ask(both.duckdb))
    print(f"{name}: {compared} cells")
    assert compared > 20 and not wrong, wrong[:20]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_the_same_rows(both: Both, name: str) -> None:
    compared, wrong = differing(rows(both.spark, name), rows(both.duckdb, name))
    print(f"{name}: {compared} cells")
    assert compared > 6 and not wrong, wrong[:20]


def test_names_of_services_are_what_they_were(both: Both) -> None:
    found = {row["service"] for row in rows(both.spark, "captures")}
    assert found == set(SERVICES)


@pytest.mark.parametrize("chosen", [
    {"service": SERVICES[2]}, {"since": "2025-11-25T00:00", "until": "2025-11-26T00:00"}, {"where": "version = '1.0' and region = 'eu'"},
], ids=str)
def test_filters_choose_the_same(both: Both, spark: Cluster, chosen: dict[str, str]) -> None:
    here, there = Fleet(both.tables, **chosen), Fleet(both.tables, engine=spark.master, **chosen)
    compared, wrong = differing(there.why(top=1000).json(), here.why(top=1000).json())
    assert compared > 20 and not wrong, wrong[:20]
    assert 0 < here.why().totals["captures"] < both.duckdb.why().totals["captures"]


def test_an_executor_that_is_killed_in_the_middle_changes_nothing(tmp_path: Path, spark: Cluster) -> None:
    store.write(tmp_path, drawn(3, 24).tables())
    fleet = Fleet(tmp_path, engine=spark.master)
    keep, kept = fleet._engine.keep, []

    def killing(name: str, expression: Any) -> Any:
        """Each table is calculated, and with the first ones that have rows an executor is lost that
        holds a part.
        """
        table = keep(name, expression)
        if table.count().to_pyarrow().as_py() and len(kept) < 2:
            kept.append(spark.kill_an_executor())
        return table

    fleet._engine.keep = killing
    try:
        compared, wrong = differing(
            [fleet.why(top=1000).json(), fleet.diff(before=OLD, after=NEW).json()],
            [Fleet(tmp_path).why(top=1000).json(), Fleet(tmp_path).diff(before=OLD, after=NEW).json()])
    finally:
        fleet._engine.keep = keep
    assert len([pid for pid in kept if pid]) == 2
    assert compared > 100 and not wrong, wrong[:20]


def test_a_query_is_in_sparks_own_sql(both: Both) -> None:
    query = "select service, count(*) as n from captures group by service order by n desc, service"
    assert both.spark.sql(query).fetchall() == both.duckdb.sql(query).fetchall()
    [(day,)] = both.spark.sql("select max(captured_utc) from captures").fetchall()
    assert day.replace(tzinfo=None) == both.duckdb.why().totals["to_utc"]
    for wrong in ("select nothing from captures", "selec", "select 1 / (count(*) - count(*)) from captures"):
        with pytest.raises(ValueError, match=r"\["):
            both.spark.sql(wrong)
    with pytest.raises(ValueError, match="UNRESOLVED_COLUMN"):
        Fleet(both.tables, engine="spark", where="versio = '1'")


def test_a_session_of_the_caller_keeps_its_names_and_settings(both: Both) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    fleet = Fleet(both.tables, engine=session)
    assert fleet.why().totals["captures"] == both.duckdb.why().totals["captures"]
    assert session.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert not [table for table in session.catalog.listTables() if table.name.startswith("stored_")]
    fleet.close()
    session.conf.unset("spark.sql.session.timeZone")
    assert session.sql("select 1").collect() == [(1,)], "it keeps running"


def test_tables_without_a_file_have_no_rows(tmp_path: Path, spark: Cluster) -> None:
    one = drawn(1, 3)
    one.rows["captures"], one.rows["findings"], one.rows["requests"] = [], [], []
    one.healthy(0, 0.5)
    store.write(tmp_path, one.tables())
    answer = Fleet(tmp_path, engine=spark.master).why()
    assert answer.causes == [] and answer.totals["captures"] == 1
    assert answer.totals["from_utc"] == datetime.datetime(2025, 11, 24, 12)
