"""Keeping a fleet's tables small: `compact` merges small files, `expire` removes old days.

How it works: files never change, so `compact` writes one file with the rows of all files of a
folder (day and service), each row once, and removes these files then. `expire` removes folders of
days, of `captures` first: what belongs to a capture that is not listed is not asked about.

What it promises: both may be killed at any instant, and may run beside `index` and each other. A
job that was killed between writing and removing leaves rows in two files, which questions count
once and the next `compact` merges. A file that another job writes meanwhile is left alone.

What is missing on purpose: locks. A question that is being answered while files are removed may
fail; asked again, it is answered.
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from dashcam._fleet.rows import schema
from dashcam._fleet.tables import store


class Compacted(NamedTuple):
    """What `compact` did."""

    folders: int
    merged: int
    written: int


class Expired(NamedTuple):
    """What `expire` did."""

    folders: int
    captures: int
    kept: int
    """Folders of old days whose captures are still there."""


def compact(tables: Path) -> Compacted:
    """Merges the files of each folder of the layout."""
    folders = merged = written = 0
    for table in schema.TABLES:
        for folder in _folders(tables / table.name, table):
            store.tidy(folder)
            files = sorted(folder.glob("part-*.parquet"))
            if len(files) < 2:
                continue
            rows = _rows(files, table)
            if rows is None:
                # Another job has merged them meanwhile.
                continue
            path, is_new = store.write_once(folder, rows)
            written += is_new
            folders += 1
            for file in files:
                if file != path:
                    file.unlink(missing_ok=True)
                    merged += 1
    return Compacted(folders, merged, written)


def expire(tables: Path, captures: Path, before: datetime.date, *, remove_captures: bool = False) -> Expired:
    """Removes days before this one. A folder whose captures still exist below `captures` is kept,
    since they would be judged again; unless they are to be removed, too."""
    folders = removed = kept = 0
    for folder in _folders(tables / schema.CAPTURES.name, schema.CAPTURES):
        if _day(folder) >= before:
            continue
        there = [path for path in _captures(folder, captures) if path.is_file()]
        if there and not remove_captures:
            kept += 1
            continue
        for path in there:
            path.unlink(missing_ok=True)
            removed += 1
        _remove(folder)
        folders += 1
    listed = {folder.relative_to(tables / schema.CAPTURES.name) for folder in _folders(tables / schema.CAPTURES.name, schema.CAPTURES)}
    for table in schema.TABLES:
        if table in (schema.CAPTURES, schema.REFUSED):
            continue
        for folder in _folders(tables / table.name, table):
            own = folder.relative_to(tables / table.name)
            # What belongs to kept captures stays; counts belong to none.
            if _day(folder) < before and (table is schema.ROLLUPS or own not in listed):
                _remove(folder)
                folders += 1
    return Expired(folders, removed, kept)


def _folders(base: Path, table: schema.Table) -> Iterator[Path]:
    """The folders of a table that have files."""
    if table is schema.REFUSED:
        return iter([base] if base.is_dir() else [])
    layout = "/".join(f"{column.name}=*" for column in schema.FOLDERS)
    return iter(sorted(path for path in base.glob(layout) if path.is_dir()))


def _day(folder: Path) -> datetime.date:
    """The day of a folder; of a wrong name the last day there is, which never expires."""
    try:
        return datetime.date.fromisoformat(unquote(folder.parent.name.partition("=")[2]))
    except ValueError:
        return datetime.date.max


def _rows(files: list[Path], table: schema.Table) -> pa.Table | None:
    """The rows of these files, each once, in the order of their keys. None: a file is gone."""
    try:
        parts = [pq.read_table(file, schema=schema.arrow(table), partitioning=None) for file in files]
    except FileNotFoundError:
        return None
    return store.once(pa.concat_tables(parts), table)


def _captures(folder: Path, captures: Path) -> Iterator[Path]:
    """The captures that a folder lists; names that lead out of `captures` are passed over."""
    base = captures.resolve()
    for file in sorted(folder.glob("part-*.parquet")):
        for uri in pq.read_table(file, columns=["uri"], partitioning=None)["uri"].to_pylist():
            path = captures / uri
            if not path.is_symlink() and path.resolve().is_relative_to(base):
                yield path


def _remove(folder: Path) -> None:
    """Removes a folder's files, and the folder if nothing was added meanwhile."""
    for file in folder.glob("part-*.parquet"):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
