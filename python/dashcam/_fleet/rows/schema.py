"""The tables of a fleet: names, columns, types.

How it works: a table is a list of columns, declared here and nowhere else. `arrow` makes the schema
of a table's files; docs/guide/fleet-tables.md is compared with this list by a test.

What it promises: times are microseconds in UTC without a zone (Spark refuses nanoseconds), text is
UTF-8 of bounded length, amounts of time are int64 nanoseconds. `day` and `service` are folders of
the layout, not columns of the files; readers of Hive layouts add them.

What is missing on purpose: what else is in a capture (waits, samples). Captures stay files.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

# Of every text in a row: a name from a capture is as long as its writer liked.
TEXT_MAX = 2000


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    about: str


class Table(NamedTuple):
    """A table of the fleet; `key` are the columns that identify a row."""

    name: str
    about: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]


def _columns(text: str) -> tuple[Column, ...]:
    """One column a line: name, type, what it says."""
    rows = [line.split(None, 2) for line in text.strip().splitlines()]
    return tuple(Column(name, kind, about) for name, kind, about in rows)


# Folders of the layout, in order.
FOLDERS = _columns("""
    day      date  Day of `captured_utc`; of rollups, of `from_utc`
    service  text  Name of the service
""")

# What every row of a capture has, so that a table can be asked without a join.
ORIGIN = _columns("""
    capture_id    text       Which capture: 32 hex digits, from its META, else from its bytes
    captured_utc  timestamp  When the capture was made
    version       text       Label `version`, else `service.version`; NULL: none
    environment   text       Label `environment`, else `deployment.environment.name`, `deployment.environment`; NULL: none
    region        text       Label `region`, else `cloud.region`; NULL: none
    host          text       Host of the process
    pid           int64      The process
    started_utc   timestamp  When its recording began; with host and pid it identifies the process
    rules_version text       Version of dashcam that judged it; `+native`: with names from that machine's binaries
""")

CAPTURES = Table("captures", "A capture.", ("capture_id",), ORIGIN + _columns("""
    uri              text       Its file, relative to the folder that was indexed
    bytes            int64      Size of the file
    from_utc         timestamp  First instant that it covers
    reason           text       Why it was made
    slow             text       The rules of `slow`
    total_requests   int64      Requests in it that were judged: not those of the service
    slow_requests    int64      Slow requests in it
    first_slow_utc   timestamp  Begin of the first of them; NULL: none
    excess_ns        int64      What these took beyond typical, summed up
    unexplained_ns   int64      The part of it that no cause explains
    sources_off      texts      Sources that were off
    losses           int64      Sum of its loss counters
    damage           texts      What is wrong with the file; empty: nothing
    labels           map        All labels of the process
    runtime          text       Interpreter; empty without one
    dashcam_version  text       Version of the recorder
"""))

FINDINGS = Table("findings", "A cause of a capture's slow requests, as `dashcam why` names it.", ("capture_id", "rank"),
                 ORIGIN + _columns("""
    rank              int64      1: the largest share
    cause             text       sleep, lock-wait, gil-wait, cpu, ..., unknown
    confidence        text       confirmed, likely, possible
    fingerprint       text       The same cause at the same place has the same text, in every capture of the service
    excess_ns         int64      Its part of the capture's excess
    share             double     The same from 0 to 1
    slow_requests     int64      Slow requests that have it
    normal_requests   int64      Normal requests that have as much of it
    first_utc         timestamp  Begin of the first slow request that has it
    last_utc          timestamp  Begin of the last
    request           text       Name of the request that went that way
    path              text       Own functions on the way to the place
    place_function    text       Where: the function, with its class
    place_file        text       Its file
    place_line        int64      Its line
    place_module      text       Its module
    culprit_function  text       Function of the culprit, if it is another one
    culprit_file      text       Its file
    culprit_line      int64      Its line
    target            text       What was waited for
    summary           text       One sentence
    advice            text       What to do
    trace_ids         texts      Trace ids of the slowest requests that have it
"""))

REQUESTS = Table("requests", "A slow request. Captures of one process overlap: a request may be in several.",
                 ("capture_id", "request_id"), ORIGIN + _columns("""
    request_id   int64      Unique in its process
    name         text       Its name
    begin_utc    timestamp  Its arrival
    duration_ns  int64      From arrival to end, or to the capture's end
    excess_ns    int64      What it took beyond typical for its name
    queued_ns    int64      From arrival until its handler began
    run_ns       int64      Its thread was on a CPU; NULL on an event loop
    ready_ns     int64      Its thread was runnable without a CPU; NULL on an event loop
    wait_ns      int64      Its thread was blocked; NULL on an event loop
    limit_ns     int64      Its limit
    is_error     bool       It ended by an exception or an error status
    is_open      bool       It still ran when the capture was made
    trace_id     text       Its trace id
"""))

PARTS = Table("parts", "A part of a slow request's time, as `dashcam why` divides it ([reading](guide/fleet.md#parts-of-requests)).",
              ("capture_id", "request_id", "number"), ORIGIN + _columns("""
    request_id   int64      The request
    number       int64      1: the largest part; at most 16, of which the last holds what is smaller: cause `rest`
    cause        text       As in findings
    fingerprint  text       Of the finding with this cause and place; NULL: none
    place        text       Where: file, line, function
    target       text       What was waited for
    culprit      text       Place of the culprit, if it is another thread
    duration_ns  int64      Its time
    intervals    int64      How many intervals it had
"""))

ROLLUPS = Table("rollups", "All requests of a name that a process counted in an interval, the captured and the others ([fields](rollups.md)).",
                ("run", "from_utc", "number", "request"), _columns("""
    version       text       As in captures
    environment   text       As in captures
    region        text       As in captures
    host          text       Host of the process
    pid           int64      The process
    started_utc   timestamp  When its recording began
    run           text       Random number of the process
    number        int64      Number of the line in the log
    is_last       bool       The line was written at the end of recording
    uri           text       The log, relative to the folder that was indexed
    bytes         int64      Its size when it was read
    hour_utc      timestamp  The hour
    from_utc      timestamp  Begin of the interval
    to_utc        timestamp  Its end, in the same hour
    request       text       Name of the requests; NULL: all names beyond the first 256
    total         int64      Requests that ended
    slow          int64      Of these, past their limit
    failed        int64      Of these, with an error
    sum_ns        int64      Time of all
    excess_ns     int64      Time of the slow ones beyond what was typical when they ended
    typical_ns    int64      What was typical at the end of the interval
    limit_ns      int64      Their limit; NULL: none
    captured      int64      Requests that captures were made for
    suppressed    int64      Requests that a cooldown or `repeat_after` suppressed
    over_quota    int64      Requests that the quota of the day suppressed
    bucket        shorts     Buckets of the histogram that are not empty
    bucket_count  longs      Requests in each of them
"""))

REFUSED = Table("refused", "A file that could not be read as a capture or log. No folders: when and whose it is is not known.",
                ("uri", "bytes"), _columns("""
    uri    text   The file, relative to the folder that was indexed
    bytes  int64  Its size
    why    text   What was found, and what was wanted
"""))

TABLES = (CAPTURES, FINDINGS, REQUESTS, PARTS, ROLLUPS, REFUSED)


def named(name: str) -> Table:
    """The table with this name. Raises KeyError with the names there are."""
    for table in TABLES:
        if table.name == name:
            return table
    raise KeyError(f"no table {name!r}; wanted one of {', '.join(table.name for table in TABLES)}")


def arrow(table: Table, *, folders: bool = False) -> pa.Schema:
    """The Arrow schema of a table's files; with `folders` as readers of the layout see it."""
    columns = table.columns + (FOLDERS if folders and table is not REFUSED else ())
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


def partitioning() -> pa.Schema:
    """The schema of the layout's folders."""
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in FOLDERS])


def arrow_type(word: str) -> pa.DataType:
    """The Arrow type of a column's type."""
    kinds = {
        "text": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(), "date": pa.date32(),
        "timestamp": pa.timestamp("us"), "texts": pa.list_(pa.string()), "shorts": pa.list_(pa.int16()),
        "longs": pa.list_(pa.int64()), "map": pa.map_(pa.string(), pa.string()),
    }
    return kinds[word]
