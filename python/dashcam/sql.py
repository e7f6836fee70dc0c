"""`dashcam sql`: SQL over the tables of a capture, by DuckDB.

    dashcam sql captures "select name, count(*) from requests group by name"

How it works: the tables of the capture are views over their Arrow streams; DuckDB reads them as a
query needs them. In Python, `connect` returns the connection:

    dashcam.sql.connect("captures").sql("from waits select kind, sum(duration_ns) group by kind")

What it promises: queries see the capture's tables and nothing else: no files, no network, no
extensions. DuckDB is an extra (`pip install 'dashcam[sql]'`), loaded here and nowhere else.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dashcam.reading import Capture, CaptureError
from dashcam.reading import open as open_capture

if TYPE_CHECKING:
    import duckdb

    from dashcam._reader import Table

FINE, USAGE, UNREADABLE = 0, 2, 3
# A table takes the widths of its columns from this many rows; it is printed in parts of as many.
PART = 1000


def connect(capture: Capture | str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that sees the tables of a capture (or of the one at a path) and nothing
    else. Raises ImportError without duckdb, CaptureError for a file that is no capture."""
    return connected(capture if isinstance(capture, Capture) else open_capture(capture), None)


def connected(capture: Capture, query: str | None) -> duckdb.DuckDBPyConnection:
    """As `connect`; if a query is given, only for this one."""
    import duckdb

    connection = duckdb.connect(":memory:")
    # A progress bar would appear among the result's rows.
    for setting in ("enable_progress_bar = false", "python_enable_replacements = false",
                    "enable_external_access = false", "autoinstall_known_extensions = false",
                    "autoload_known_extensions = false", "lock_configuration = true"):
        connection.execute(f"SET {setting}")
    # Before the tables are there: later DuckDB names what they are views of.
    names = capture.tables if query is None else names_in(connection, query) or capture.tables
    for name, table in capture.tables.items():
        rows = Rows(table)
        connection.register(name, rows)
        if rows.taken and name in names:
            connection.execute(f'CREATE TABLE copied AS FROM "{name}"')
            connection.unregister(name)
            connection.execute(f'ALTER TABLE copied RENAME TO "{name}"')
    return connection


class Rows:
    """A table, and whether its rows were asked for. DuckDB up to 1.4, the last for Python 3.9, takes
    the rows when the table is registered and can read them once: such a table is copied."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.taken = False

    def __arrow_c_schema__(self) -> Any:
        return self.table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.taken = True
        return self.table.__arrow_c_stream__(requested_schema)


def names_in(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    """The tables that a query names; none if it is no single query."""
    import duckdb

    try:
        return {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:
        return set()


def main(words: list[str]) -> int:
    """Answers one query. Arguments: how to print (table, json, csv), the capture, the query."""
    form, path, query = words
    try:
        import duckdb
    except ImportError as error:
        say(f"sql: the package duckdb cannot be loaded by {sys.executable}: {error}; wanted: "
             f"{sys.executable} -m pip install 'dashcam[sql]'; or ask another engine: "
             "dashcam export CAPTURE --to parquet -o FOLDER")
        return USAGE
    try:
        capture = Capture(Path(path))
    except CaptureError as error:
        say(str(error))
        return UNREADABLE
    for note in capture.notes:
        say(note)
    for what in capture.damage:
        say(f"{path}: {what}; the query runs on the rest")
    try:
        answer = connected(capture, query).execute(query)
        if answer is None:
            say(f"sql: found {query!r}, wanted a query, like \"select name, count(*) from requests group by name\"")
            return USAGE
        show(answer, form, sys.stdout)
        sys.stdout.flush()
    except duckdb.Error as error:
        say(f"sql: {error}")
        return USAGE
    except OSError as error:
        # Nor may the interpreter's end print more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The reader of our output has closed it.
        if not isinstance(error, BrokenPipeError):
            say(f"cannot write to stdout: {error.strerror} (os error {error.errno})")
            return USAGE
    except KeyboardInterrupt:
        return 130
    return FINE


def say(text: str) -> None:
    """A line on stderr."""
    print(f"dashcam: {text}", file=sys.stderr)


def show(answer: duckdb.DuckDBPyConnection, form: str, out: TextIO) -> None:
    """Prints all rows as a table, as JSON or as CSV."""
    names = distinct([column[0] for column in answer.description or []])
    if form == "json":
        return show_json(answer, names, out)
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        while rows := answer.fetchmany(PART):
            writer.writerows([plain(value) for value in row] for row in rows)
        return None
    first = True
    while (rows := answer.fetchmany(PART)) or first:
        print_table(names if first else None, names, rows, out)
        first = False
    return None


def show_json(answer: duckdb.DuckDBPyConnection, names: list[str], out: TextIO) -> None:
    """A list of objects, one row for each line."""
    before = "[\n"
    while rows := answer.fetchmany(PART):
        for row in rows:
            values = {name: plain(value) for name, value in zip(names, row)}
            out.write(before + json.dumps(values, ensure_ascii=False, allow_nan=True))
            before = ",\n"
    out.write("[]\n" if before == "[\n" else "\n]\n")


def print_table(header: list[str] | None, names: list[str], rows: list[Any], out: TextIO) -> None:
    """Columns of equal width; numbers to the right, unknown values as `-`."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max([len(name)] + [len(row[i]) for row in texts]) for i, name in enumerate(names)]
    right = [bool(rows) and all(is_number(row[i]) for row in rows) for i in range(len(names))]

    def line(words: list[str]) -> str:
        padded = [w.rjust(n) if r else w.ljust(n) for w, n, r in zip(words, widths, right)]
        return "  ".join(padded).rstrip() + "\n"

    if header is not None:
        out.write(line(header))
        out.write("  ".join("-" * n for n in widths) + "\n")
    out.writelines(line(row) for row in texts)


def is_number(value: Any) -> bool:
    """Whether it is aligned to the right."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def cell(value: Any) -> str:
    """A value in a table. Names come from requests: characters that would move the cursor are
    escaped.
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(plain(value))
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain(value: Any) -> Any:
    """A value that JSON and CSV can hold."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def distinct(names: list[str]) -> list[str]:
    """The names, with a number after a name that occurred before."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        out.append(name if count == 1 else f"{name}_{count}")
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
