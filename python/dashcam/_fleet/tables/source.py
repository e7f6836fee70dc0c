"""Tables of captures themselves as a data source of Spark: executors read the captures.

How it works: a part of the captures is a task. It reads them one after another in a process with
limits (`rows.spooling`), as DuckDB's engine does, and yields their rows as Arrow. A capture that
cannot be read is a row with nothing but its names and `REFUSED`.

What it promises: importable without Ibis and DuckDB: executors need PySpark's own Python, dashcam
and pyarrow. A task that is run again, on another machine, gives the same rows. What a killed task
leaves on its machine is removed by the next one there.

What is missing on purpose: filters and columns. Spark 4.0 passes neither to a source in Python; the
fleet's own filters have chosen the captures before.
"""

# PySpark's types are those of its own version; pyarrow has none.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from dashcam._fleet.rows import children, spooling, temporary

FORMAT = "dashcam_captures"
# Of a capture that could not be read: why.
REFUSED = "refused_why"
# Captures of a task. Its process starts in the time of some 50 captures; a lost task is read again.
PART_MIN, PART_MAX = 32, 256
# Tasks, if so there are enough captures for each.
PARTS = 16
TYPES = {"text": "STRING", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "timestamp": "TIMESTAMP"}


def options(
    table: str, captures: list[spooling.Captured], *, limits: children.Limits | None = None, native_names: bool = False, **_: Any
) -> dict[str, str]:
    """The options of the source for a table of these captures."""
    rows = [[str(file.path.absolute()), file.uri, file.bytes, *origin] for file, origin in captures]
    asked = {"captures": rows, "limits": list(limits or children.Limits()), "native_names": native_names}
    return {"table": table, "asked": base64.b64encode(zlib.compress(json.dumps(asked).encode())).decode()}


class _Part(InputPartition):  # type: ignore[misc]
    """The captures of a task."""

    def __init__(self, captures: list[spooling.Captured]) -> None:
        super().__init__(None)
        self.captures = captures


class _Asked(NamedTuple):
    """What the options say."""

    captures: list[spooling.Captured]
    limits: children.Limits
    native_names: bool


class Captures(DataSource):  # type: ignore[misc]
    """The source."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        columns = [*spooling.columns(self.options["table"]), (REFUSED, "text")]
        return ", ".join(f"`{name}` {TYPES[kind]}" for name, kind in columns)

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(self.options["table"], _asked(self.options["asked"]))


class _Reader(DataSourceReader):  # type: ignore[misc]
    """Reads one table."""

    def __init__(self, table: str, asked: _Asked) -> None:
        self.table = table
        self.asked = asked

    def __getstate__(self) -> dict[str, Any]:
        # Each task has its own captures.
        return {"table": self.table, "asked": self.asked._replace(captures=[])}

    def partitions(self) -> list[InputPartition]:
        captures = self.asked.captures
        size = min(PART_MAX, max(PART_MIN, -(-len(captures) // PARTS)))
        return [_Part(captures[at:at + size]) for at in range(0, len(captures), size)] or [_Part([])]

    def read(self, partition: _Part) -> Iterator[pa.RecordBatch]:
        wanted = _arrow(self.table)
        with temporary.Folder() as folder:
            for found in spooling.spooled(partition.captures, [self.table], folder.path, jobs=1, limits=self.asked.limits,
                                          native_names=self.asked.native_names):
                if found.why is not None:
                    yield _refused(found, wanted)
                    continue
                for batch in spooling.batches(found, self.table):
                    columns = [*batch.columns, pa.nulls(batch.num_rows, pa.string())]
                    yield pa.RecordBatch.from_arrays([column.cast(field.type) for column, field in zip(columns, wanted)], schema=wanted)


def _refused(found: spooling.Spooled, wanted: pa.Schema) -> pa.RecordBatch:
    row = dict(zip(spooling.ORIGIN, found.captured.origin)) | {REFUSED: found.why}
    return pa.RecordBatch.from_pylist([row], schema=wanted)


def _arrow(table: str) -> pa.Schema:
    """The rows as Spark takes them: its times are in UTC."""
    fields = [field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field for field in spooling.arrow(table)]
    return pa.schema([*fields, pa.field(REFUSED, pa.string())])


def _asked(text: str) -> _Asked:
    asked = json.loads(zlib.decompress(base64.b64decode(text)))
    captures = [spooling.Captured(children.File(Path(path), uri, size), tuple(origin)) for path, uri, size, *origin in asked["captures"]]
    return _Asked(captures, children.Limits(*asked["limits"]), asked["native_names"])
