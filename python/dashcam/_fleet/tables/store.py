"""Where a fleet's tables are: folders of Parquet files, written once.

    INDEX/captures/day=2026-11-21/service=billy/part-5f0c....parquet
    INDEX/refused/part-91ab....parquet

How it works: `files` divides rows by day and service and makes a file of each, whose name is a hash
of its bytes. `put` writes it under a temporary name that is then linked to its final one; an object
store shows whole files anyway. `read` gives each table as an Arrow dataset, which reads only the
columns and folders that a question needs.

What it promises: a file is never changed and never half there, and has each row once; two writers
of the same rows make the same file, so a job may be killed and run again. Names of services are escaped: they cannot
leave their folder. The same captures may be in two files after such an accident: `questions` takes
a row once.

What is missing on purpose: merging small files and removing old ones: `keeping` does.
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa

from dashcam._fleet.rows import schema
from dashcam._fleet.tables import places

# Of pyarrow each function loads what it needs: datasets load pandas, in a quarter of a second.
if TYPE_CHECKING:
    import pyarrow.dataset as ds

# Rows of a row group: small enough for readers in parallel.
GROUP_ROWS = 128 * 1024
# Columns that tell rows of one key apart: judged by other rules, or the same capture in two files.
APART = ("rules_version", "uri")
# The tables that have a row for each file.
OF_FILES = (schema.CAPTURES.name, schema.REFUSED.name)
# The end of a file's name while it is written.
UNFINISHED = ".tmp"
# A file that has no name for so long has no writer any more.
LEFT_S = 86_400


def is_index(folder: places.Place) -> bool:
    """Whether a folder holds tables of a fleet. A folder `captures` alone does not make it one."""
    if not isinstance(folder, Path):
        return any(folder.listed(table.name) for table in schema.TABLES)
    layout = f"{schema.CAPTURES.name}/{schema.FOLDERS[0].name}=*", f"{schema.REFUSED.name}/part-*.parquet"
    return any(next(folder.glob(pattern), None) for pattern in layout)


def write(folder: Path, rows: dict[str, pa.Table]) -> int:
    """Writes rows by table name; returns how many files were new. `captures` comes last: a capture
    that is listed there has its other rows."""
    return sum(put(folder, name, data) for name, data in files(rows))


def files(rows: dict[str, pa.Table]) -> Iterator[tuple[str, bytes]]:
    """The files that hold rows, by name in the layout, in the order in which they are to be
    written. The same rows give the same files."""
    for name in sorted(rows, key=lambda name: name == schema.CAPTURES.name):
        table = schema.named(name)
        for part, found in _divided(table, rows[name]):
            file, data = encoded(found)
            yield "/".join(filter(None, (name, part, file))), data


def _escaped(text: str) -> str:
    """A value in the name of a folder. Spark decodes each `%XX` as a character by itself, so only
    ASCII is encoded; others are what they are in every reader."""
    return "".join(quote(c, safe="") if c.isascii() else c for c in text)


def encoded(rows: pa.Table) -> tuple[str, bytes]:
    """A file of rows, and its name: a hash of it."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", row_group_size=GROUP_ROWS, coerce_timestamps="us")
    data = sink.getvalue().to_pybytes()
    return f"part-{hashlib.sha256(data).hexdigest()[:32]}.parquet", data


def read(folder: places.Place, name: str) -> ds.Dataset:
    """A table as a dataset; without files it has no rows."""
    import pyarrow.dataset as ds

    table = schema.named(name)
    whole = schema.arrow(table, folders=True)
    if isinstance(folder, Path):
        base, files, system = str(folder / name), listed(folder, name), None
    else:
        base, files, system = f"{folder.path}/{name}", folder.listed(name), folder.files
    if not files:
        return ds.dataset(whole.empty_table())
    if table is schema.REFUSED:
        return ds.dataset(files, format="parquet", schema=whole, filesystem=system)
    layout = ds.partitioning(schema.partitioning(), flavor="hive")
    return ds.dataset(files, format="parquet", schema=whole, filesystem=system, partitioning=layout, partition_base_dir=base)


def listed(folder: Path, name: str) -> list[str]:
    """The files of a table, in order."""
    return sorted(os.path.join(part, file) for part, _, files in os.walk(folder / name) for file in files if file.endswith(".parquet"))


def known(folder: Path) -> set[tuple[str, int]]:
    """Name and size of the files that are in the tables already."""
    return set().union(*(names(read(folder, name).to_table(columns=["uri", "bytes"])) for name in OF_FILES))


def names(rows: pa.Table) -> set[tuple[str, int]]:
    """Name and size of the files that these rows are of."""
    return set(zip(rows["uri"].to_pylist(), rows["bytes"].to_pylist()))


def counted(folder: Path) -> set[tuple[str, int]]:
    """Name and size of the logs of request counts as they were when they were read."""
    listed = read(folder, schema.ROLLUPS.name).to_table(columns=["uri", "bytes"]).group_by(["uri", "bytes"]).aggregate([])
    return set(zip(listed["uri"].to_pylist(), listed["bytes"].to_pylist()))


def lines(folder: Path, uris: list[str]) -> set[tuple[str, datetime.datetime, int]]:
    """The lines of these logs that are in the tables: `run`, `from_utc`, `number`."""
    import pyarrow.dataset as ds

    key = ["run", "from_utc", "number"]
    found = read(folder, schema.ROLLUPS.name).to_table(columns=key, filter=ds.field("uri").isin(uris)).group_by(key).aggregate([])
    return set(zip(*(found[column].to_pylist() for column in key)))


def _divided(table: schema.Table, rows: pa.Table) -> Iterable[tuple[str, pa.Table]]:
    """The rows by folder of the layout."""
    import pyarrow.compute as pc

    if rows.num_rows == 0:
        return
    ordered = once(rows, table)
    if table is schema.REFUSED:
        yield "", ordered
        return
    folders = [column.name for column in schema.FOLDERS]
    groups = ordered.select(folders).group_by(folders).aggregate([]).sort_by([(name, "ascending") for name in folders])
    for group in groups.to_pylist():
        mask = pc.and_(*(pc.equal(ordered[name], pa.scalar(group[name], ordered.schema.field(name).type)) for name in folders))
        part = "/".join(f"{name}={_escaped(str(group[name]))}" for name in folders)
        yield part, ordered.filter(mask).select([column.name for column in table.columns])


def once(rows: pa.Table, table: schema.Table) -> pa.Table:
    """The rows, each once, in the order of their keys."""
    keys = [*table.key, *(name for name in APART if name in rows.column_names and name not in table.key)]
    if table is schema.ROLLUPS:
        # A log has two names, and a row is the same in both.
        keys.remove("uri")
    numbered = rows.select(keys).append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    first = numbered.group_by(keys).aggregate([("row", "min")])
    ordered = first.sort_by([(name, "ascending") for name in keys])
    return rows.take(ordered["row_min"])


def write_once(folder: Path, rows: pa.Table) -> tuple[Path, bool]:
    """Writes a file of rows; returns its path, and whether it is new."""
    name, data = encoded(rows)
    return folder / name, put(folder, name, data)


def put(place: places.Place, name: str, data: bytes) -> bool:
    """Writes a file; returns whether it is new. What is there under its name is the same file: an
    object store is not asked. Raises OSError."""
    if not isinstance(place, Path):
        place.put(name, data)
        return True
    path = place / name
    if path.exists():
        return False
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    tidy(folder)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=UNFINISHED)
    try:
        with naming(place, "`dashcam fleet index SRC --out DIR` writes tables elsewhere"), os.fdopen(handle, "wb") as file:
            file.write(data)
            # A temporary file is private; the tables are as readable as other files of the user.
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            file.flush()
            os.fsync(file.fileno())
        # Fails if another writer was quicker: its file is the same.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    return True


@contextlib.contextmanager
def naming(folder: Path, remedy: str) -> Iterator[None]:
    """Errors of writing an open file, which name none, name this folder: a full disk, above all."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{folder}: {error.strerror or error}; wanted room for tables there; {remedy}") from None


def tidy(folder: Path) -> None:
    """Removes what a writer left that was killed before its file had a name."""
    for file in folder.glob(f".*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > LEFT_S:
                file.unlink()


def _umask() -> int:
    """The process's mask for new files; Linux shows it without changing it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
