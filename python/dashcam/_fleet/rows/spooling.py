"""The tables of captures themselves (`waits`, `samples`, ...), for questions that reach into them.

How it works: a child (`children`) opens a capture and writes the tables that are asked for as Arrow
streams, a batch at a time, to files in a folder of the asking process. That process takes them into
its answer and removes them. `ORIGIN` is added to each row.

What it promises: a damaged or hostile capture ends at most its child, and is `Spooled` with a
reason; rows of a capture are there whole or not at all. Only a few captures are spooled before
their turn, so memory and disk do not grow with their number. A file that is another capture by now
is refused: rows have the names of the capture that was asked about.

What is missing on purpose: what is asked of the rows. Engines do that.
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from dashcam import reading
from dashcam._fleet.rows import children, judging, schema

# What each row has of its capture, before the table's own columns. The one table that has `service`
# and `host` itself has them from here.
ORIGIN = ("capture_id", "service", "version", "host")
# Captures that are spooled before their turn, for each child.
AHEAD = 2


class Captured(NamedTuple):
    """A capture to read: its file, and what its rows have of it."""

    file: children.File
    origin: tuple[str, str, str | None, str]
    """Values of `ORIGIN`."""


class Spooled(NamedTuple):
    """What became of a capture: a file for each table, or why there is none."""

    captured: Captured
    files: dict[str, Path]
    why: str | None


def names() -> list[str]:
    """The tables that captures have."""
    return list(reading._reader().TABLES)


def columns(table: str) -> list[tuple[str, str]]:
    """Names and types (words of `schema`) of a table's columns. Raises KeyError."""
    own = reading._reader().columns(table)
    if own is None:
        raise KeyError(f"no table {table!r}; wanted one of {', '.join(names())}")
    return [(name, "text") for name in ORIGIN] + [(name, kind.partition("[")[0]) for name, kind, _ in own if name not in ORIGIN]


def arrow(table: str) -> pa.Schema:
    """The schema of a table's rows."""
    return pa.schema([pa.field(name, schema.arrow_type(kind)) for name, kind in columns(table)])


def spooled(
    captures: Iterable[Captured], tables: list[str], folder: Path, *, jobs: int | None = None,
    limits: children.Limits | None = None, native_names: bool = False,
) -> Iterator[Spooled]:
    """Reads the captures, in their order. Files in `folder` are the caller's to remove. Raises OSError
    if there is no room for them."""
    listed = list(captures)
    jobs = children.at_once(jobs, len(listed))
    limits = limits or children.Limits()
    words = {"tables": tables, "native_names": native_names}
    number = count()

    def one(captured: Captured) -> Spooled:
        spool = str(folder / f"{next(number)}")
        try:
            with pool.any() as child:
                head, _ = child.answered(captured.file, limits, {**words, "spool": spool, "capture_id": captured.origin[0]})
        except judging.Refused as refused:
            for path in folder.glob(f"{Path(spool).name}.*"):
                path.unlink()
            return Spooled(captured, {}, str(refused))
        if "failed" in head:
            raise OSError(head["failed"])
        return Spooled(captured, {table: Path(f"{spool}.{table}") for table in tables}, None)

    with children.Children(jobs, limits, native_names) as pool, ThreadPoolExecutor(jobs) as threads:
        rest = iter(listed)
        ahead: deque[Future[Spooled]] = deque(threads.submit(one, captured) for captured in islice(rest, jobs * AHEAD))
        try:
            while ahead:
                yield ahead.popleft().result()
                ahead.extend(threads.submit(one, captured) for captured in islice(rest, 1))
        finally:
            threads.shutdown(cancel_futures=True)


def batches(found: Spooled, table: str) -> Iterator[pa.RecordBatch]:
    """The rows of a spooled capture; its file is removed."""
    wanted = arrow(table)
    path = found.files[table]
    with pa.memory_map(str(path)) as file:
        path.unlink()
        for batch in pa.ipc.open_stream(file):
            own = [pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in found.captured.origin]
            yield pa.RecordBatch.from_arrays(own + [batch.column(field.name) for field in wanted if field.name not in ORIGIN], schema=wanted)


def answer(request: dict[str, Any]) -> dict[str, object]:
    """Writes the tables of a capture, in a child: how many rows each has; or `refused`; or `failed`,
    which is no fault of the capture."""
    path = Path(request["path"])
    try:
        capture = judging.read(path, request["uri"], request["capture_id"], native_names=request["native_names"], bytes_max=request["bytes_max"])
        return {"rows": {table: _write(capture, table, f"{request['spool']}.{table}") for table in request["tables"]}}
    except judging.Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "its rows need more memory than a process that reads captures may have"}
    except OSError as error:
        if error.errno == errno.EFBIG:
            return {"refused": "its rows need more room than a process that reads captures may take"}
        return {"failed": f"{Path(request['spool']).parent}: {error.strerror or error}"}


def _write(capture: reading.Capture, table: str, path: str) -> int:
    rows = 0
    reader = pa.RecordBatchReader.from_stream(capture.tables[table])
    with pa.OSFile(path, "wb") as out, pa.ipc.new_stream(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
