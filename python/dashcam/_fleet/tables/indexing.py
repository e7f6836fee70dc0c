"""From a folder of captures to the fleet's tables: `index` adds what is new.

How it works: files that the tables have already (by name and size) are passed over; the others are
judged by `children` and written by `store`, a batch at a time. Logs of request counts grow: their
new lines are added. A source may be a folder of captures,
or tables that were written before. Captures are asked about without a separate step: `opened`
indexes them into `SOURCE/fleet-tables` if that is there, else into the user's cache.

What it promises: incremental; a job that was killed goes on where it was. Refused files are rows. In
the user's cache what a file of the same name was before remains, but is not asked about.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from dashcam._fleet.rows import children, counting, judging, schema
from dashcam._fleet.tables import cache, places, store
from dashcam.reading import CaptureError

# The folder of the tables inside a folder of captures.
INSIDE = "fleet-tables"
ENDING = ".dashcam"
# Logs of request counts; a full one has the second name.
LOGS = (".rollups.log", ".rollups.log.1")
# Captures whose rows are in memory at once; about 20 rows of 150 bytes each.
BATCH = 2000

Report = Callable[[int, int], None]


class Counts(NamedTuple):
    """What `index` did."""

    files: int
    known: int
    judged: int
    refused: int
    written: int


class Source(NamedTuple):
    """Where tables and captures of a fleet are."""

    tables: places.Place
    captures: Path | None
    """Folder that `uri` is relative to; None: the captures are somewhere else."""
    live: set[tuple[str, int | None]] | None
    """Name and size of the files to ask about; a log of request counts, which grows, has no size. None:
    all that are in the tables."""
    notes: list[str]
    """What the answers lack."""
    use: cache.Use | None = None
    """Of tables in the user's cache."""


def index(
    source: Path, out: Path, *, jobs: int | None = None, limits: children.Limits | None = None,
    native_names: bool = False, again: bool = False, report: Report | None = None,
) -> Counts:
    """Adds the captures below `source` to the tables in `out`. `again`: also those that are there,
    judged by other rules. Raises CaptureError for a source that cannot be read."""
    return _index(source, out, jobs=jobs, limits=limits, native_names=native_names, again=again, report=report)[0]


def _index(
    source: Path, out: Path, *, jobs: int | None = None, limits: children.Limits | None = None,
    native_names: bool = False, again: bool = False, report: Report | None = None,
) -> tuple[Counts, set[tuple[str, int]]]:
    """As `index`; also name and size of the captures as they are in the tables now."""
    files = list(captures(source))
    seen = set() if again else store.known(out)
    new = [file for file in files if (file.uri, file.bytes) not in seen]
    listed = {(file.uri, file.bytes) for file in files}
    refused = written = done = 0
    judged = children.judge(new, jobs=jobs, limits=limits, native_names=native_names)
    while batch := list(islice(judged, BATCH)):
        tables: dict[str, list[pa.Table]] = {}
        for one in batch:
            for name, rows in one.rows.items():
                tables.setdefault(name, []).append(rows)
        written += store.write(out, {name: pa.concat_tables(parts) for name, parts in tables.items()})
        # A file may have grown since it was listed.
        listed.update(*(store.names(rows) for name in store.OF_FILES for rows in tables.get(name, [])))
        refused += len(tables.get(schema.REFUSED.name, []))
        done += len(batch)
        if report:
            report(done, len(new))
    return Counts(len(files), len(files) - len(new), len(new) - refused, refused, written + count(source, out)), listed


def count(source: Path, out: Path) -> int:
    """Adds the lines of logs of request counts that are new; returns how many files were written."""
    files = list(logs(source))
    seen = store.counted(out) | store.known(out) if files else set()
    written = 0
    for file in files:
        if (file.uri, file.bytes) in seen:
            continue
        try:
            found = counting.rows(file.path, file.uri, file.bytes, store.lines(out, both_names(file.uri)))
        except judging.Refused as refused:
            written += store.write(out, {schema.REFUSED.name: judging.refusal(file.uri, file.bytes, str(refused))})
            continue
        tables = {schema.ROLLUPS.name: found.rows}
        if found.wrong:
            why = f"{found.wrong} lines were passed over; {found.why}"
            tables[schema.REFUSED.name] = judging.refusal(file.uri, file.bytes, why)
        written += store.write(out, tables)
    return written


def logs(source: Path) -> Iterator[children.File]:
    """The logs of request counts below a folder. Raises CaptureError."""
    return _files(source, LOGS)


def both_names(uri: str) -> list[str]:
    """The names that a log has before and after it is full."""
    first = uri[:-2] if uri.endswith(".1") else uri
    return [first, f"{first}.1"]


def captures(source: Path) -> Iterator[children.File]:
    """The captures below a folder, by name; tables inside it are passed over. Raises CaptureError."""
    return _files(source, (ENDING,))


def _files(source: Path, endings: tuple[str, ...]) -> Iterator[children.File]:
    if not source.is_dir():
        raise CaptureError(f"{source}: found no folder, wanted one with captures (*{ENDING}) or tables of a fleet")
    for folder, folders, names in os.walk(source, onerror=_raise):
        folders[:] = sorted(name for name in folders if not store.is_index(Path(folder, name)))
        for name in sorted(names):
            path = Path(folder, name)
            # Links could lead out of the folder.
            if name.endswith(endings) and not path.is_symlink() and path.is_file():
                yield children.File(path, path.relative_to(source).as_posix(), path.stat().st_size)


def opened(given: str | os.PathLike[str], *, native_names: bool = False, **options: Any) -> Source:
    """The tables of a source, brought up to date if it has captures. Raises CaptureError."""
    source = places.opened(given)
    if not isinstance(source, Path):
        if not store.is_index(source):
            raise CaptureError(f"{source}: found no tables of a fleet, wanted those that `dashcam ship` or `dashcam fleet index` write")
        return Source(source, None, None, [])
    if store.is_index(source):
        return Source(source, source.parent if source.name == INSIDE else source, None, [])
    inside = source / INSIDE
    if store.is_index(inside):
        notes = []
        if os.access(inside, os.W_OK):
            index(source, inside, native_names=native_names, **options)
        else:
            seen = store.known(inside)
            new = sum((file.uri, file.bytes) not in seen for file in captures(source))
            notes = [f"{inside} cannot be written: {new} captures are not in it"] if new else []
        return Source(inside, source, None, notes)
    counted = {name for file in logs(source) for name in both_names(file.uri)}
    if not counted and next(captures(source), None) is None:
        raise CaptureError(f"no capture (*{ENDING}) and no counts of requests (*{LOGS[0]}) below {source}, and no tables of a fleet in it")
    tables = cache.folder(source, native_names)
    use = cache.used(tables)
    if _was_emptied(source, tables):
        for inside in tables.iterdir():
            shutil.rmtree(inside)
    counts, judged = _index(source, tables, native_names=native_names, **options)
    removed = cache.bound() if counts.written else cache.Removed(0, 0)
    return Source(tables, source, {*judged, *((name, None) for name in counted)}, [str(removed)] if removed.folders else [], use)


def _was_emptied(source: Path, tables: Path) -> bool:
    """Whether a log has other lines than the ones that were counted: its folder was emptied, or is
    another one of the same name, whose counts would be added to those of the one before."""
    seen: dict[str, list[children.File]] = {}
    for file in logs(source):
        seen.setdefault(both_names(file.uri)[0], []).append(file)
    for name, files in seen.items():
        known = store.lines(tables, both_names(name))
        first = [counting.first(file.path, file.bytes) for file in files]
        # The log that follows one that was put away has new lines only.
        if known and any(first) and not any(key in known for key in first):
            return True
    return False


def _raise(error: OSError) -> None:
    raise CaptureError(str(error)) from None


def live_rows(files: Iterable[tuple[str, int | None]]) -> pa.Table:
    """Names and sizes of files as a table."""
    listed = list(files)
    return pa.table({"uri": pa.array([uri for uri, _ in listed], pa.string()), "bytes": pa.array([size for _, size in listed], pa.int64())})
