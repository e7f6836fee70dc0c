"""Engines that answer the questions; today DuckDB, in this process.

What is missing on purpose: Spark. The questions need no change for it; reading an index from a
cluster does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashcam._fleet.tables import indexing
    from dashcam._fleet.tables.duck import DuckDb

# Before the names of tables as they are stored: the names themselves are views, each capture once.
STORED = "stored_"
ENGINES = ("duckdb",)


class QueryError(ValueError):
    """A query or a condition that the engine does not accept."""


def opened(name: str, source: indexing.Source) -> DuckDb:
    """The engine with this name. Raises ValueError for one that is not there."""
    if name not in ENGINES:
        raise ValueError(f"engine: found {name!r}, wanted {' or '.join(ENGINES)}")
    from dashcam._fleet.tables.duck import DuckDb

    return DuckDb(source)


def age(version: str) -> tuple[list[int], str]:
    """Versions in the order of their numbers; with names of native code behind without."""
    numbers = version.partition("+")[0].split(".")
    return [int(number) if number.isdigit() else 0 for number in numbers], version
