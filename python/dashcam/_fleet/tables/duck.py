"""DuckDB, in this process, answers the questions.

How it works: there are two connections. Questions are asked of one that reads the Parquet files of a
folder by itself, and no other files; in an object store pyarrow reads them. Small tables are read
once, into memory: each question would open all files again. Tables of captures themselves are read by
a few processes into files of their own (`spilled`), which are there until `close`. Queries that somebody wrote go to a
connection that sees Arrow datasets and has no files at all; it is opened by the first of them.

What it promises: a query sees the fleet's tables and nothing else: no files, no network, no
extensions. A condition is one expression, and cannot be followed by a statement.
"""

# Ibis has no types; what pyright infers from its source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends.duckdb import Backend

from dashcam._fleet.rows import schema, spooling
from dashcam._fleet.tables import footers, indexing, places, spilled, store
from dashcam._fleet.tables.engine import RAW, STORED, Engine, QueryError, Refusal

# Functions of Spark that questions use.
MACROS = ("CREATE TEMP MACRO unix_micros(t) AS epoch_us(t)",)
LOCKED = (
    # A progress bar would appear among the result's rows.
    "enable_progress_bar = false", "python_enable_replacements = false", "enable_external_access = false",
    "autoinstall_known_extensions = false", "autoload_known_extensions = false", "TimeZone = 'UTC'",
    "lock_configuration = true",
)
# Tables of so many bytes of files, all together, are read into memory: at most a hundred MiB there.
SMALL_BYTES = 4 << 20
# In the path of a folder these mean other files, or columns, to DuckDB.
SIGNS = frozenset("*?[]={}\\")
TYPES = {
    "text": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
    "texts": "VARCHAR[]", "shorts": "SMALLINT[]", "longs": "BIGINT[]", "map": "MAP(VARCHAR, VARCHAR)",
}


class DuckDb(Engine):
    """The fleet's tables in DuckDB."""

    dialect = "duckdb"
    has_schemas = True

    def __init__(self, source: indexing.Source) -> None:
        self.source = source
        _Exact.register_options()
        self.backend: Backend = _Exact().connect()
        self.connection: duckdb.DuckDBPyConnection = self.backend.con
        self.views: dict[str, str] = {}
        """What `view` named, for queries."""
        self.queries: duckdb.DuckDBPyConnection | None = None
        """The connection of queries, once there was one."""
        self.once: set[str] = set()
        """Tables with one file in each folder, which has each row once (`store`)."""
        self.spill: spilled.Spill | None = None
        """Tables of captures themselves, once there was a question."""
        self.rows: dict[str, Any] = {}
        """What was named besides the tables, for queries."""
        tables = source.tables
        files = {table.name: store.listed(tables.resolve(), table.name) for table in schema.TABLES} if isinstance(tables, Path) else {}
        if isinstance(tables, Path) and sum(os.path.getsize(file) for found in files.values() for file in found) <= SMALL_BYTES:
            for table in schema.TABLES:
                self.connection.register(STORED + table.name, store.read(tables, table.name).to_table())
        elif isinstance(tables, Path) and not SIGNS & set(str(tables.resolve())):
            self.connection.execute("SET allowed_directories = [?]", [f"{tables.resolve()}/"])
            # What is kept has no order. With one, rows of many files are copied a second time.
            self.connection.execute("SET preserve_insertion_order = false")
            # Files never change; a question reads them several times.
            self.connection.execute("SET parquet_metadata_cache = true")
            for table in schema.TABLES:
                _read(self.connection, table, files[table.name])
                if len({os.path.dirname(file) for file in files[table.name]}) == len(files[table.name]):
                    self.once.add(table.name)
        else:
            _register(self.connection, tables)
        # What is kept is read a few times: to compress it costs more.
        self.connection.execute("SET force_compression = 'uncompressed'")
        self._lock(self.connection)

    def table(self, name: str) -> ir.Table:
        return self.backend.table(name)

    def stored(self, name: str) -> ir.Table:
        return self.table(STORED + name)

    def view(self, name: str, expression: ir.Table, condition: str | None = None) -> ir.Table:
        behind = f" WHERE ({condition})" if condition else ""
        query = f"SELECT * FROM ({self.backend.compile(expression)}){behind}"
        try:
            if len(self.connection.extract_statements(query)) != 1:
                raise QueryError(f"found {condition!r}, wanted a condition, like \"version = '4.2'\"")
            self.connection.execute(_view(name, query))
            self.views.pop(name, None)
            self.views[name] = query
            return self.backend.table(name)
        except duckdb.Error as error:
            raise QueryError(str(error)) from None

    def named(self, name: str, expression: ir.Table) -> ir.Table:
        self.connection.execute(_view(name, self.backend.compile(expression)))
        return self.backend.table(name)

    def keep(self, name: str, expression: ir.Table) -> ir.Table:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {self.backend.compile(expression)}")
        return self.backend.table(name)

    def numbered(self, name: str, kept: ir.Table, column: str, key: str) -> ir.Table:
        # Tables in memory have this number already.
        self.connection.execute(_view(name, f"SELECT *, rowid AS {_quoted(column)} FROM {_quoted(kept.get_name())}"))
        return self.backend.table(name)

    def is_once(self, name: str) -> bool:
        return name in self.once

    def read(self, tables: list[str], captures: list[spooling.Captured], **options: Any) -> list[Refusal]:
        self.spill = self.spill or spilled.Spill()
        refused = self.spill.add(tables, captures, **options)
        for table in tables:
            self._name(RAW + table, self.spill.read(table))
        return refused

    def given(self, name: str, rows: pa.Table) -> ir.Table:
        self._name(name, rows)
        return self.backend.table(name)

    def _name(self, name: str, rows: Any) -> None:
        self.connection.register(name, rows)
        self.rows[name] = rows

    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        connection = self.queries or self._opened()
        try:
            for name, rows in self.rows.items():
                connection.register(name, rows)
                if name.startswith(RAW):
                    # As many names as there are tables; later ones are the same.
                    connection.execute("CREATE SCHEMA IF NOT EXISTS raw")
                    connection.execute(f"CREATE OR REPLACE VIEW raw.{_quoted(name[len(RAW):])} AS FROM {_quoted(name)}")
            for name, view in self.views.items():
                connection.execute(_view(name, view))
            answer: duckdb.DuckDBPyConnection | None = connection.execute(query)
        except duckdb.Error as error:
            raise QueryError(str(error)) from None
        if answer is None:
            raise QueryError(f"found {query!r}, wanted a query, like \"select service, count(*) from captures group by service\"")
        return answer

    def close(self) -> None:
        self.connection.close()
        if self.queries is not None:
            self.queries.close()
        if self.spill is not None:
            self.spill.close()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """A connection that has the tables, and no files."""
        self.queries = duckdb.connect(":memory:")
        _register(self.queries, self.source.tables)
        self._lock(self.queries)
        return self.queries

    def _lock(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self.source.live is not None:
            connection.register(f"{STORED}live", indexing.live_rows(self.source.live))
        for macro in MACROS:
            connection.execute(macro)
        for setting in LOCKED:
            try:
                connection.execute(f"SET {setting}")
            except duckdb.Error as error:
                # Times have no zone: what this extension would change is not used.
                if not setting.startswith("TimeZone"):
                    raise QueryError(str(error)) from None


class _Exact(Backend):  # type: ignore[misc]
    """Ibis's backend for DuckDB, with rows by Arrow alone: Ibis loads pandas for them."""

    def to_pyarrow(self, expr: ir.Expr, /, *, params: Any = None, limit: Any = None, **options: Any) -> pa.Table:
        """The rows of an expression."""
        self._run_pre_execute_hooks(expr)
        found = self.con.sql(self.compile(expr.as_table(), params=params, limit=limit, **options)).to_arrow_table()
        return expr.__pyarrow_result__(found)


def _view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE TEMP VIEW {name} AS {query}"


def _register(connection: duckdb.DuckDBPyConnection, tables: places.Place) -> None:
    """The tables as Arrow datasets."""
    for table in schema.TABLES:
        connection.register(STORED + table.name, store.read(tables, table.name))


def _read(connection: duckdb.DuckDBPyConnection, table: schema.Table, files: list[str]) -> None:
    """A table whose files DuckDB reads: at half of the cost. Columns that no file has are NULL;
    without files it has no rows."""
    if not files:
        nothing = ", ".join(f"CAST(NULL AS {TYPES[column.type]}) AS {_quoted(column.name)}" for column in _columns(table))
        connection.execute(_view(STORED + table.name, f"SELECT {nothing} WHERE FALSE"))
        return
    kinds = footers.kinds(files)
    has = {name for (name,) in connection.execute(f"SELECT DISTINCT name FROM parquet_schema({_listed(kinds)})").fetchall()}
    # Files of one kind are opened when they are read; others, for each question.
    by_name = f"union_by_name = {len(kinds) > 1}"
    options = f"{by_name}, hive_partitioning = false"
    if table is not schema.REFUSED:
        types = ", ".join(f"{column.name}: {TYPES[column.type]}" for column in schema.FOLDERS)
        options = f"{by_name}, hive_partitioning = true, hive_types = {{{types}}}"
        has.update(column.name for column in schema.FOLDERS)
    found = f"read_parquet({_listed(files)}, {options})"
    columns = ", ".join(f"CAST({_quoted(column.name) if column.name in has else 'NULL'} AS {TYPES[column.type]}) AS {_quoted(column.name)}"
                        for column in _columns(table))
    connection.execute(_view(STORED + table.name, f"SELECT {columns} FROM {found}"))


def _columns(table: schema.Table) -> tuple[schema.Column, ...]:
    """The columns of a table as it is stored."""
    return table.columns + (() if table is schema.REFUSED else schema.FOLDERS)


def _listed(files: list[str]) -> str:
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"


def _quoted(name: str) -> str:
    return f'"{name}"'
