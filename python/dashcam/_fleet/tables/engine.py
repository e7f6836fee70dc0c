"""What an engine is: it answers the questions (`duck`, `spark`; `engines` chooses).

How it works: an engine has the tables as they are stored, by name. Questions are Ibis expressions
over them; an expression knows its engine and is sent there as SQL when its rows are asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    import pyarrow as pa

    from dashcam._fleet.rows import spooling

# Before the names of tables as they are stored: the names themselves are views, each capture once.
STORED = "stored_"
# Before the names of tables that captures have themselves.
RAW = "raw_"


class QueryError(ValueError):
    """A query or a condition that the engine does not accept."""


class EngineError(OSError):
    """An engine that cannot be started, or fails."""


class Refusal(NamedTuple):
    """A capture that could not be read; a row of `refused`."""

    uri: str
    bytes: int
    why: str


class Engine(ABC):
    """The fleet's tables, and what answers questions about them."""

    dialect: str
    """Its SQL, as sqlglot calls it."""
    has_schemas: bool
    """Whether queries may name `raw.waits`; else it is `raw_waits`."""

    @abstractmethod
    def table(self, name: str) -> ir.Table:
        """What was named `name`."""

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
    def numbered(self, name: str, kept: ir.Table, column: str, key: str) -> ir.Table:
        """What was kept, with a number for each row; `key` is different in every row. The numbers
        stay the same as long as the rows are kept."""

    def is_once(self, name: str) -> bool:
        """Whether it is known, without a look at its rows, that a table has each row once."""
        return False

    @abstractmethod
    def read(self, tables: list[str], captures: list[spooling.Captured], **options: Any) -> list[Refusal]:
        """Reads tables of captures themselves, named `RAW` and the table's name from now on; returns
        the captures that could not be read. `options`: those of `spooling.spooled`."""

    @abstractmethod
    def given(self, name: str, rows: pa.Table) -> ir.Table:
        """Names rows of this process, for questions and queries."""

    @abstractmethod
    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        """The rows of a query in the engine's own SQL. Raises QueryError."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it keeps."""

    def rules(self, captures: ir.Table) -> list[str]:
        """Versions of the rules that captures were judged by, oldest first."""
        found = captures.select("rules_version").distinct().to_pyarrow()["rules_version"].to_pylist()
        return sorted(found, key=_age)


def _age(version: str) -> tuple[list[int], str]:
    """Versions in the order of their numbers; with names of native code behind without."""
    numbers = version.partition("+")[0].split(".")
    return [int(number) if number.isdigit() else 0 for number in numbers], version
