"""Tables of captures themselves on this machine, for DuckDB.

How it works: processes read the captures (`rows.spooling`); this one appends their rows to a file
of Parquet for each table, in a temporary folder.

What it promises: memory holds a row group of each table and what a few processes need, however many
captures there are. The folder is removed by `close`, or later (`rows.temporary`).
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dashcam._fleet.rows import spooling, temporary
from dashcam._fleet.tables import store
from dashcam._fleet.tables.engine import Refusal

if TYPE_CHECKING:
    import pyarrow.dataset as ds

# A row group is written when it has so much. Captures have some hundred rows of 100 bytes each.
GROUP_BYTES = 16 << 20
REMEDY = "TMPDIR=DIR makes the folder elsewhere"
# Captures between two reports.
REPORT = 2000


class Spill:
    """A folder of tables."""

    def __init__(self) -> None:
        self.folder = temporary.Folder()

    def add(
        self, tables: list[str], captures: list[spooling.Captured], *, report: Callable[[int, int], None] | None = None, **options: Any
    ) -> list[Refusal]:
        """Writes these tables; returns the captures that could not be read. Raises OSError if there
        is no room."""
        refused: list[Refusal] = []
        with contextlib.ExitStack() as stack:
            spool = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder.path)))
            files = {table: stack.enter_context(_File(self._path(table), table)) for table in tables}
            for nth, found in enumerate(spooling.spooled(captures, tables, spool, **options), start=1):
                if found.why is not None:
                    refused.append(Refusal(found.captured.file.uri, found.captured.file.bytes, found.why))
                else:
                    for table, file in files.items():
                        for batch in spooling.batches(found, table):
                            file.add(batch)
                if report and nth % REPORT == 0:
                    report(nth, len(captures))
        return refused

    def read(self, table: str) -> ds.Dataset:
        """The rows of a table."""
        import pyarrow.dataset as ds

        return ds.dataset(str(self._path(table)), format="parquet")

    def close(self) -> None:
        """Removes the folder."""
        self.folder.close()

    def _path(self, table: str) -> Path:
        return self.folder.path / f"{table}.parquet"


class _File(contextlib.AbstractContextManager["_File"]):
    """A table's file while it is written, in row groups of many captures."""

    def __init__(self, path: Path, table: str) -> None:
        import pyarrow.parquet as pq

        self.schema = spooling.arrow(table)
        self.folder = path.parent
        with store.naming(self.folder, REMEDY):
            self.writer = pq.ParquetWriter(str(path), self.schema, compression="zstd")
        self.pending: list[pa.RecordBatch] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self.pending.append(batch)
        self.bytes += batch.nbytes
        if self.bytes >= GROUP_BYTES:
            with store.naming(self.folder, REMEDY):
                self._write()

    def __exit__(self, *exc: object) -> None:
        with store.naming(self.folder, REMEDY):
            self._write()
            self.writer.close()

    def _write(self) -> None:
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending, schema=self.schema))
        self.pending, self.bytes = [], 0
