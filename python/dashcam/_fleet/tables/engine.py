"""An engine answers the questions: DuckDB in this process, or Spark.

How it works: an engine has the tables as they are stored, by name. Questions are Ibis expressions
over them; an expression knows its engine and is sent there as SQL when its rows are asked for.

What it promises: `opened` loads the library of the engine that is asked for, and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir

    from dashcam._fleet.tables import indexing

# Before the names of tables as they are stored: the names themselves are views, each capture once.
STORED = "stored_"
DUCKDB = "duckdb"
WANTED = ("wanted duckdb; local-spark (in this process), spark://HOST:PORT (standalone), sc://HOST:PORT (Spark Connect), "
          "or spark (what spark-defaults.conf says)")


class QueryError(ValueError):
    """A query or a condition that the engine does not accept."""


class EngineError(OSError):
    """An engine that cannot be started, or fails."""


class Engine(ABC):
    """The fleet's tables, and what answers questions about them."""

    @abstractmethod
    def stored(self, name: str) -> ir.Table:
        """A table as it is stored; `live`: the files that are asked about."""

    @abstractmethod
    def view(self, name: str, expression: ir.Table, condition: str | None = None) -> ir.Table:
        """Names an expression, so that SQL can use it; only the rows that fulfil `condition`.
        Raises QueryError."""

    @abstractmethod
    def named(self, name: str, expression: ir.Table) -> ir.Table:
        """Names an expression for the questions alone: what is asked of it is short, and so is the
        time to write it as SQL."""

    @abstractmethod
    def keep(self, name: str, expression: ir.Table) -> ir.Table:
        """Calculates an expression and keeps its rows."""

    @abstractmethod
    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        """The rows of a query in the engine's own SQL. Raises QueryError."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it keeps."""

    def rules(self) -> list[str]:
        """Versions of the rules that captures were judged by, oldest first."""
        found = self.stored("captures").select("rules_version").distinct().to_pyarrow()["rules_version"].to_pylist()
        return sorted(found, key=_age)


def opened(given: Any, source: indexing.Source) -> Engine:
    """The engine with this name, or of this SparkSession. Raises ValueError for another name,
    EngineError if it cannot be started."""
    if given == DUCKDB:
        from dashcam._fleet.tables.duck import DuckDb

        return DuckDb(source)
    if isinstance(given, str) and given not in ("spark", "local-spark") and not given.startswith(("spark://", "sc://")):
        raise ValueError(f"engine: found {given!r}, {WANTED}")
    from dashcam._fleet.tables.spark import Spark

    return Spark(given, source)


def _age(version: str) -> tuple[list[int], str]:
    """Versions in the order of their numbers; with names of native code behind without."""
    numbers = version.partition("+")[0].split(".")
    return [int(number) if number.isdigit() else 0 for number in numbers], version
