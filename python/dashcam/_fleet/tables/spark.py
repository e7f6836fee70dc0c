"""Apache Spark answers the questions: a cluster reads the tables, this process asks.

How it works: each table is a temporary view over its folder, with the columns of `schema`; days and
services are read from the names of folders. Ibis compiles the questions to Spark's SQL. What all
questions need is cached by Spark. Rows come back as Arrow; `sql` hands them on by DuckDB.

What it promises: the same rows as DuckDB gives (test: tests/fleet). The executors run Spark's own
code only: no Python, and nothing of dashcam, is needed there, but for tables of captures themselves
(`source`). A lost executor's rows are calculated
again, by Spark. A session that was passed in keeps running, and its own settings are not changed.

What is missing on purpose: settings. Memory, cores and credentials are Spark's:
`spark-defaults.conf` in SPARK_CONF_DIR, or a SparkSession of the caller.
"""

# PySpark's types are those of its own version; Ibis and pyarrow have none.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingImports=false

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends.pyspark import Backend
from pyspark.errors import AnalysisException, PySparkException

from dashcam._fleet.rows import schema, spooling, temporary
from dashcam._fleet.tables import indexing, places, source
from dashcam._fleet.tables.engine import RAW, STORED, Engine, EngineError, QueryError, Refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAVA = "wanted Java 17 or newer in JAVA_HOME or PATH (Debian: openjdk-17-jre-headless), and a master that answers"
EXECUTORS = "wanted dashcam and pyarrow in the Python of the executors (PYSPARK_PYTHON), and the captures' folder at the same path there"
# Of sessions that are started here. The user interface of Spark would listen on all addresses.
CONF = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
# Of a Spark Connect server whose address has none; and how long one may take to accept a connection.
CONNECT_PORT, CONNECT_S = 15002, 10.0
WAREHOUSE = "spark.sql.warehouse.dir"
# Of each session that asks. The driver keeps the plans of the last thousand questions as text, which
# are megabytes for some: the heap was full after some dozens, and the driver answered no more.
PLAN_TEXT = ("spark.sql.maxPlanStringLength", "16384")
TYPES = {
    "text": "STRING", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
    "texts": "ARRAY<STRING>", "shorts": "ARRAY<SMALLINT>", "longs": "ARRAY<BIGINT>", "map": "MAP<STRING, STRING>",
}


class Spark(Engine):
    """The fleet's tables in Spark."""

    dialect = "spark"
    has_schemas = False

    def __init__(self, given: str | SparkSession, asked: indexing.Source) -> None:
        self.kept: list[DataFrame] = []
        self.own: SparkSession | None = None
        self.warehouse = temporary.Folder()
        """Where a session that is started here writes tables that a query creates."""
        with _reported(f"; {JAVA}"):
            if isinstance(given, str):
                given, is_new = _started(given, str(self.warehouse.path / "warehouse"))
                self.own = given if is_new else None
        with _reported():
            self.session = _apart(given)
            _Exact.register_options()
            self.backend: Backend = _Exact().connect(self.session)
            for table in schema.TABLES:
                self._stored(table, asked).createOrReplaceTempView(STORED + table.name)
            if asked.live is not None:
                self.session.createDataFrame(indexing.live_rows(asked.live)).createOrReplaceTempView(STORED + "live")

    def table(self, name: str) -> ir.Table:
        return self.backend.table(name)

    def stored(self, name: str) -> ir.Table:
        return self.table(STORED + name)

    def view(self, name: str, expression: ir.Table, condition: str | None = None) -> ir.Table:
        with _reported():
            rows = self.session.sql(self.backend.compile(expression))
            if condition:
                rows = rows.filter(condition)
            rows.createOrReplaceTempView(name)
            return self.backend.table(name)

    def named(self, name: str, expression: ir.Table) -> ir.Table:
        return self.view(name, expression)

    def keep(self, name: str, expression: ir.Table) -> ir.Table:
        with _reported():
            rows = self.session.sql(self.backend.compile(expression)).cache()
            rows.createOrReplaceTempView(name)
            self.kept.append(rows)
            return self.backend.table(name)

    def numbered(self, name: str, kept: ir.Table, column: str, key: str) -> ir.Table:
        # Rows have no order there: those of a lost machine are calculated again.
        return self.keep(name, kept.mutate(**{column: ibis.row_number().over(order_by=key)}))

    def read(self, tables: list[str], captures: list[spooling.Captured], **options: Any) -> list[Refusal]:
        own = {captured.origin[0]: captured.file for captured in captures}
        refused: list[Refusal] = []
        with _reported(f"; {EXECUTORS}"):
            self.session.dataSource.register(source.Captures)
            for table in tables:
                reader = self.session.read.format(source.FORMAT).options(**source.options(table, captures, **options))
                # Read once: what was refused is known before the question.
                rows = reader.load().cache()
                self.kept.append(rows)
                is_refused = rows[source.REFUSED].isNotNull()
                found = rows.filter(is_refused).select(spooling.ORIGIN[0], source.REFUSED).toArrow().to_pylist()
                refused += [Refusal(own[row[spooling.ORIGIN[0]]].uri, own[row[spooling.ORIGIN[0]]].bytes, row[source.REFUSED]) for row in found]
                rows.filter(~is_refused).drop(source.REFUSED).createOrReplaceTempView(RAW + table)
        return refused

    def given(self, name: str, rows: pa.Table) -> ir.Table:
        with _reported():
            self.session.createDataFrame(rows).createOrReplaceTempView(name)
            return self.backend.table(name)

    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        with _reported():
            try:
                rows = self.session.sql(query).toArrow()
            except PySparkException as error:
                raise QueryError(_first_line(error)) from None
        if not rows.column_names:
            # Of a statement that is no question.
            rows = pa.table({"result": pa.array([], pa.string())})
        connection = duckdb.connect(":memory:")
        connection.register("answer", rows)
        return connection.execute("SELECT * FROM answer")

    def close(self) -> None:
        from py4j.protocol import Py4JError

        # Another owner may have ended the session, and all that it kept.
        with contextlib.suppress(Py4JError, PySparkException):
            for rows in self.kept:
                rows.unpersist()
        self.kept.clear()
        if self.own is not None:
            self.own.stop()
            self.own = None
        self.warehouse.close()

    def _stored(self, table: schema.Table, asked: indexing.Source) -> DataFrame:
        """A table as it is stored; without files it has no rows."""
        columns = table.columns + (() if table is schema.REFUSED else schema.FOLDERS)
        names = ", ".join(f"`{column.name}` {TYPES[column.type]}" for column in columns)
        try:
            found = self.session.read.schema(names).parquet(f"{places.uri(asked.tables)}/{table.name}")
            # Spark Connect looks for the folder only now.
            found.columns  # noqa: B018
            return found
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return self.session.createDataFrame([], names)


class _Exact(Backend):  # type: ignore[misc]
    """Ibis's backend for Spark, with rows by Arrow: Ibis takes them through pandas, where integers
    become floating-point numbers if one is NULL."""

    _own: SparkSession

    def do_connect(self, session: SparkSession) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Uses a session."""
        self._own = session
        super().do_connect(session)

    def to_pyarrow(self, expr: ir.Expr, /, *, params: Any = None, limit: Any = None, **options: Any) -> pa.Table:
        """The rows of an expression."""
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        with _reported():
            found = self._own.sql(self.compile(table, params=params, limit=limit, **options)).toArrow()
        # Times are without a zone in Ibis, and in UTC for Spark.
        return expr.__pyarrow_result__(found.cast(table.schema().to_pyarrow()))


def _started(name: str, warehouse: str) -> tuple[SparkSession, bool]:
    """The session of a master, and whether it is new: a process can have only one application."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("dashcam fleet")
    if name.startswith("sc://"):
        _reached(name)
        return builder.remote(name).create(), True
    is_new = SparkSession.getActiveSession() is None
    if name != "spark":
        builder = builder.master("local[*]" if name == "local-spark" else name)
    for key, value in CONF.items():
        builder = builder.config(key, value)
    if is_new and not SparkConf().contains(WAREHOUSE):
        # Else `spark-warehouse` in the current folder.
        builder = builder.config(WAREHOUSE, warehouse)
    return builder.getOrCreate(), is_new


def _reached(address: str) -> None:
    """Raises EngineError if nothing listens at the address of a Spark Connect server: its client asks
    again for minutes."""
    place = urlsplit(address.partition(";")[0])
    host, port = place.hostname or "", place.port or CONNECT_PORT
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        raise EngineError(f"engine: {host}:{port}: {error.strerror or error}; wanted a Spark Connect server there") from None


def _apart(session: SparkSession) -> SparkSession:
    """A session with names and settings of its own, on the same cluster. Spark Connect has none:
    there the given one is used."""
    from pyspark.errors import PySparkNotImplementedError

    try:
        apart = session.newSession()
    except (PySparkNotImplementedError, AttributeError):
        return session
    apart.conf.set(*PLAN_TEXT)
    return apart


@contextlib.contextmanager
def _reported(remedy: str = "") -> Iterator[None]:
    """Spark's errors as the fleet's."""
    from py4j.protocol import Py4JError

    try:
        yield
    except AnalysisException as error:
        raise QueryError(_first_line(error)) from None
    except (PySparkException, Py4JError) as error:
        raise EngineError(f"engine: {_first_line(error)}{remedy}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
