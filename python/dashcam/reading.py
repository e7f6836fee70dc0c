"""Captures in Python: `dashcam.open(path)`.

How it works: a native library of its own (`dashcam._reader`, loaded here and nowhere else) reads
the file and keeps it in memory. A table is made, batch by batch, when something reads its Arrow
stream:

    capture = dashcam.open("captures")                  # the newest one in the folder
    pyarrow.table(capture.tables["requests"])
    polars.DataFrame(capture.tables["requests"])
    pandas.DataFrame.from_arrow(capture.tables["requests"])     # pandas 3; before, through pyarrow
    duckdb.connect().register("requests", capture.tables["requests"])

What it promises: names, order and types of columns are those of docs/tables.md; no dependency of
dashcam's: a program that takes a table has its own library for it. The GIL is released during long
work. A file that grows (a live stream) is read as it is at this moment.
"""

from __future__ import annotations

# What `collections.abc` is; that module's package takes longer to import than all else here.
from _collections_abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from dashcam._reader import Table
    from dashcam.shapes import Cause, Summary, Verdict


class CaptureError(OSError):
    """A file cannot be read as a capture; its text gives what was found and the remedy."""


class Tables(Mapping[str, "Table"]):
    """The tables of a capture by name. Each is an object of the Arrow PyCapsule interface
    (`__arrow_c_stream__`, `__arrow_c_schema__`) with `name`, `about` and `columns`; its rows are
    made each time it is read."""

    __slots__ = ("_native", "_names")

    def __init__(self, native: Any, names: list[str]) -> None:
        self._native = native
        self._names = names

    def __getitem__(self, name: str) -> Table:
        table: Table | None = self._native.table(name) if isinstance(name, str) else None
        if table is None:
            raise KeyError(f"no table {name!r}; wanted one of {', '.join(self._names)}")
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<dashcam tables: {', '.join(self._names)}>"


class Causes(list["Cause"]):
    """Causes, the largest share first; a table in notebooks."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        from dashcam import _notebook

        return _notebook.markdown(_notebook.CAUSES, _notebook.causes(self))

    def _repr_html_(self) -> str:
        from dashcam import _notebook

        return _notebook.html(_notebook.CAUSES, _notebook.causes(self))


class Diagnosis:
    """The verdict on a capture, as in `dashcam why`; in notebooks as `dashcam why --md`."""

    __slots__ = ("text", "markdown", "_json")

    text: str
    """As `dashcam why` prints it."""
    markdown: str
    """As `dashcam why --md` prints it."""

    def __init__(self, found: str, text: str, markdown: str) -> None:
        self.text = text
        self.markdown = markdown
        self._json = found

    @property
    def causes(self) -> Causes:
        """The causes, largest share first, each with the fields of `dashcam why --json`."""
        return Causes(self.json()["causes"])

    def json(self) -> Verdict:
        """The whole verdict, as `dashcam why --json` prints it (schema 1)."""
        import json

        found: Verdict = json.loads(self._json)
        return found

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        named = ", ".join(str(cause["cause"]) for cause in self.causes) or "nothing to blame"
        return f"<dashcam diagnosis: {named}>"


class Capture:
    """An opened capture. Safe to use from several threads. Notebooks show what it covers."""

    __slots__ = ("path", "tables", "notes", "damage", "_native")

    path: Path
    """The file."""
    tables: Tables
    """Its tables by name; docs/tables.md."""
    notes: list[str]
    """What could not be named (binaries that are gone), and why."""
    damage: list[str]
    """What is wrong with the file (cut off, wrong checksum); empty for a whole one."""

    def __init__(self, path: Path, *, native_names: bool = True) -> None:
        reader = _reader()
        self.path = path
        try:
            self._native = reader.Capture(path, native_names)
        except OSError as error:
            raise CaptureError(str(error)) from None
        self.tables = Tables(self._native, list(reader.TABLES))
        self.notes = self._native.notes
        self.damage = self._native.damage

    def why(self, slow: str | None = None) -> Diagnosis:
        """Names the cause of the slow requests. `slow`: judge by these rules ("250ms",
        "checkout>1s") instead of the capture's own. Raises ValueError for wrong rules."""
        return Diagnosis(*self._native.why(slow))

    def summary(self) -> Summary:
        """Its contents: time covered, requests, threads, counts, metrics, losses; as `dashcam show
        --json` prints them."""
        import json

        found: Summary = json.loads(self._native.summary())
        return found

    def _repr_markdown_(self) -> str:
        from dashcam import _notebook

        summary = self.summary()
        rows = _notebook.requests(summary["requests"])
        head = _notebook.plain_markdown(_notebook.head(self.path, summary))
        return f"{head}\n\n{_notebook.markdown(_notebook.REQUESTS, rows)}"

    def _repr_html_(self) -> str:
        from html import escape

        from dashcam import _notebook

        summary = self.summary()
        rows = _notebook.requests(summary["requests"])
        head = escape(_notebook.head(self.path, summary))
        return f"<p>{head}</p>{_notebook.html(_notebook.REQUESTS, rows)}"

    def __repr__(self) -> str:
        return f"<dashcam capture {str(self.path)!r}>"


def open(path: str | os.PathLike[str], *, native_names: bool = True) -> Capture:  # noqa: A001
    """Reads the capture at `path`, or the newest in that folder. See `dashcam.open`."""
    from pathlib import Path

    given = Path(path)
    return Capture(newest(given) if given.is_dir() else given, native_names=native_names)


def newest(folder: Path) -> Path:
    """The newest capture in a folder, by time of writing. Raises CaptureError without one."""
    found = []
    try:
        for entry in folder.iterdir():
            if entry.suffix == ".dashcam":
                # removed meanwhile, or a link to nothing
                try:
                    found.append((entry.stat().st_mtime_ns, entry))
                except FileNotFoundError:
                    pass
    except OSError as error:
        raise CaptureError(str(error)) from None
    if not found:
        raise CaptureError(f"no capture (*.dashcam) in {folder}")
    return max(found)[1]


def _reader() -> Any:
    try:
        from dashcam import _reader
    except ImportError as error:
        raise CaptureError(
            f"the reader of captures (dashcam._reader) cannot be loaded: {error}; wanted a wheel "
            "of dashcam for this machine, or a build by tools/setup") from error
    return _reader
