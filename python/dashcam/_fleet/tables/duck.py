"""DuckDB, in this process, answers the questions.

How it works: the tables are registered as Arrow datasets, so DuckDB asks for the columns and days
that it needs and reaches no file by itself.

What it promises: a query sees the fleet's tables and nothing else: no files, no network, no
extensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import ibis
import ibis.expr.types as ir

from dashcam._fleet.rows import schema
from dashcam._fleet.tables import indexing, store
from dashcam._fleet.tables.engine import STORED, Engine, QueryError

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

# Functions of Spark that questions use.
MACROS = ("CREATE TEMP MACRO unix_micros(t) AS epoch_us(t)",)
LOCKED = (
    # A progress bar would appear among the result's rows.
    "enable_progress_bar = false", "python_enable_replacements = false", "enable_external_access = false",
    "autoinstall_known_extensions = false", "autoload_known_extensions = false", "TimeZone = 'UTC'",
    "lock_configuration = true",
)


class DuckDb(Engine):
    """The fleet's tables in DuckDB."""

    def __init__(self, source: indexing.Source) -> None:
        self.backend: Backend = ibis.duckdb.connect()
        self.connection: duckdb.DuckDBPyConnection = self.backend.con
        self.datasets = {table.name: store.read(source.tables, table.name) for table in schema.TABLES}
        for name, dataset in self.datasets.items():
            self.connection.register(STORED + name, dataset)
        if source.live is not None:
            self.connection.register(STORED + "live", indexing.live_rows(source.live))
        for macro in MACROS:
            self.connection.execute(macro)
        for setting in LOCKED:
            try:
                self.connection.execute(f"SET {setting}")
            except duckdb.Error as error:
                # Times have no zone: what this extension would change is not used.
                if not setting.startswith("TimeZone"):
                    raise QueryError(str(error)) from None

    def stored(self, name: str) -> ir.Table:
        return self.backend.table(STORED + name)

    def view(self, name: str, expression: ir.Table, condition: str | None = None) -> ir.Table:
        query = ibis.to_sql(expression, dialect="duckdb")
        behind = f" WHERE ({condition})" if condition else ""
        try:
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM ({query}){behind}")
            return self.backend.table(name)
        except duckdb.Error as error:
            raise QueryError(str(error)) from None

    def keep(self, name: str, expression: ir.Table) -> ir.Table:
        query = ibis.to_sql(expression, dialect="duckdb")
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
        return self.backend.table(name)

    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        try:
            answer: duckdb.DuckDBPyConnection | None = self.connection.execute(query)
        except duckdb.Error as error:
            raise QueryError(str(error)) from None
        if answer is None:
            raise QueryError(f"found {query!r}, wanted a query, like \"select service, count(*) from captures group by service\"")
        return answer

    def close(self) -> None:
        self.connection.close()
