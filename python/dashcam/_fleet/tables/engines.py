"""The engine with a name: DuckDB in this process, or Spark. Loads the library of that one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashcam._fleet.tables.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

    from dashcam._fleet.tables import indexing

WANTED = ("wanted duckdb; local-spark (in this process), spark://HOST:PORT (standalone), sc://HOST:PORT (Spark Connect), "
          "or spark (what spark-defaults.conf says)")


def open_engine(given: str | SparkSession, source: indexing.Source) -> Engine:
    """The engine with this name, or of this SparkSession. Raises ValueError for another name,
    EngineError if it cannot be started."""
    if given == "duckdb":
        from dashcam._fleet.tables.duck import DuckDb

        return DuckDb(source)
    if isinstance(given, str) and given not in ("spark", "local-spark") and not given.startswith(("spark://", "sc://")):
        raise ValueError(f"engine: found {given!r}, {WANTED}")
    from dashcam._fleet.tables.spark import Spark

    return Spark(given, source)
