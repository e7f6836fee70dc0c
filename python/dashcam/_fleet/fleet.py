"""`dashcam.fleet`: questions over the captures of many hosts.

    fleet = dashcam.fleet("captures", since="7d")
    print(fleet.why().text)
    fleet.diff(before={"version": "4.1"}, after={"version": "4.2"}).differences
    fleet.tables["findings"].group_by("host").agg(...)          # Ibis

How it works: `indexing` judges captures that the tables do not have yet, `engines` opens the tables,
`questions` are asked, `answers` makes of their rows what a person reads.

What it promises: excess is exact where processes counted all of their requests (rollups); captures
only say how it is divided among causes, and excess without a capture is a line of its own. Without
these counts an answer is of the captured slow requests, and says so.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dashcam import reading
from dashcam._fleet import raw
from dashcam._fleet.ask import answers, captures, differing, page, questions
from dashcam._fleet.rows import schema, spooling
from dashcam._fleet.tables import indexing
from dashcam._fleet.tables.engine import RAW, Refusal
from dashcam._fleet.tables.engines import open_engine
from dashcam.reading import CaptureError

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
NAMES = ("captures", "findings", "requests", "parts", "rollups", "refused")
# What a side of `diff` may be chosen by.
SIDE_COLUMNS = ("version", "environment", "region", "host")


class Fleet:
    """Captures of many hosts as tables, and questions about them."""

    def __init__(
        self, uri: str | os.PathLike[str], *, since: str | datetime.datetime | None = None,
        until: str | datetime.datetime | None = None, service: str | None = None, where: str | None = None,
        engine: str | SparkSession = "duckdb", now: datetime.datetime | None = None, **options: Any,
    ) -> None:
        now = now or datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        self.now = now
        """What "7d" is before; UTC without a zone."""
        span = questions.Span(time(since, now, "since"), time(until, now, "until"), service)
        self.uri = os.fspath(uri)
        self._source = indexing.opened(uri, **options)
        self._reading = options
        self.notes: list[str] = self._source.notes
        """What the answers lack, in words."""
        self._engine = open_engine(engine, self._source)
        self._chosen = self._stored(span)
        if where is not None:
            named = self._engine.view("chosen", self._chosen.tables.captures, where)
            self._chosen = questions.where(self._chosen, named, self._counts(where))
        self._kept: questions.Asked | None = None
        self.tables: Mapping[str, ir.Table] = questions.once(self._chosen)._asdict()
        """The tables as Ibis expressions: `captures`, `findings`, `requests`, `parts`, `rollups`,
        `refused`; each row once, after the filters."""
        self._stored_refused = self.tables["refused"]
        self._read: set[str] = set()
        self._refused: list[Refusal] = []

    def _stored(self, span: questions.Span) -> questions.Chosen:
        found = {name: self._engine.stored(name) for name in NAMES}
        if self._source.live is not None:
            found.update(_of_files(found, self._engine.stored("live")))
        for name in ("captures", *questions.OF_CAPTURES):
            found[name] = questions.spanned(found[name], span)
        found["rollups"] = questions.counted(found["rollups"], span)
        return questions.chosen(questions.Tables(**found), self._engine)

    def _counts(self, where: str) -> ir.Table:
        """The counts that fulfil a condition over captures."""
        rollups = self._chosen.tables.rollups
        try:
            return self._engine.view("chosen_counts", rollups, where)
        except ValueError:
            self.notes.append("no rates: --where has columns that the counts of all requests (`rollups`) have not")
            return rollups.limit(0)

    def why(self, by: str | None = None, top: int = 20) -> answers.Why:
        """Which causes cost the most. `by`: groups by service, version, environment, region, host,
        request or cause instead of single causes. Raises ValueError for another column."""
        if by is not None and by not in questions.BY:
            raise ValueError(f"by: found {by!r}, wanted one of {', '.join(questions.BY)}")
        return answers.why(self._asked(), (by,) if by else questions.CAUSE, top, self._captures())

    def trend(self, fingerprint: str | None = None, by: str = "day", top: int = 10) -> answers.Trend:
        """What each cause cost in each day or hour. Raises ValueError for another interval."""
        if by not in ("day", "hour"):
            raise ValueError(f"by: found {by!r}, wanted day or hour")
        return answers.trend(self._asked(), fingerprint, by, top)

    def show(self, fingerprint: str) -> answers.Shown:
        """All that is known of one cause; the beginning of its fingerprint is enough. Raises
        LookupError if there is none, or several."""
        return answers.show(self._asked(), fingerprint, self._captures())

    def diff(
        self, before: Mapping[str, str] | None = None, after: Mapping[str, str] | None = None,
        at: str | datetime.datetime | None = None, window: str = "24h", anytime: bool = False,
    ) -> differing.Diff:
        """What became worse or better: between two versions (or environments, regions, hosts), or
        from `window` before `at` to `window` after it. `anytime`: of a release that rolls out; such a
        question may be asked again and again, and false regressions stay as rare. Raises ValueError
        for a wrong side."""
        if at is not None:
            if before or after or anytime:
                raise ValueError("diff: found at beside before, after or anytime, wanted one or the other")
            instant = time(at, self.now, "at")
            assert instant is not None
            return differing.by_time(self._asked(), instant, datetime.timedelta(seconds=seconds(window, "window")))
        sides = []
        for name, side in (("before", before), ("after", after)):
            if not side or not set(side) <= set(SIDE_COLUMNS):
                raise ValueError(f"{name}: found {dict(side or {})}, wanted values of {', '.join(SIDE_COLUMNS)}, "
                                 "like {'version': '4.2'}; or at=\"2026-11-21T10:00\"")
            sides.append(dict(side))
        return differing.by_label(self._asked(), sides[0], sides[1], anytime=anytime)

    def worse(self, window: str = "24h") -> list[dict[str, Any]]:
        """What became worse or new in the last `window` against the one before. Raises ValueError
        for a wrong time."""
        return self.diff(at=self.now - datetime.timedelta(seconds=seconds(window, "window")), window=window).found("worse", "new")

    def view(self, top: int = 100) -> str:
        """A page of HTML: the causes with trends and intervals, versions side by side, hosts by
        hours, and the worst capture of each."""
        return page.page(page.data(self._asked(), f"Fleet {self.uri}", top, self._captures()))

    def sql(self, query: str) -> duckdb.DuckDBPyConnection:
        """The rows of a query over the tables, each row once, after the filters; `raw.waits` is
        `raw("waits")`. It is in the engine's own SQL. DuckDB sees nothing else; Spark what its
        session may see. Raises ValueError for a wrong query, and as `raw`."""
        if tables := raw.named(query, self._engine.dialect):
            self._reach(tables)
        for name in NAMES:
            self._engine.view(name, self.tables[name])
        return self._engine.sql(query if self._engine.has_schemas else raw.renamed(query, self._engine.dialect))

    def raw(self, table: str) -> ir.Table:
        """A table of the captures themselves (docs/tables.md: "waits", "samples", ...), of all that
        the filters leave, as an Ibis expression; before its columns `capture_id`, `service`,
        `version`, `host`. The captures are read now, once. `notes` says how many; one that cannot be
        read is a row of `refused`. Raises LookupError for another name, CaptureError if no capture is
        here."""
        if table not in spooling.names():
            raise LookupError(f"raw: found {table!r}, wanted one of {', '.join(spooling.names())}")
        self._reach([table])
        return self._engine.table(RAW + table)

    def _reach(self, tables: list[str]) -> None:
        """Reads tables of the captures, unless they were read."""
        new = [table for table in tables if table not in self._read]
        if not new:
            return
        columns = ("capture_id", "uri", "bytes", "service", "version", "host")
        chosen = raw.chosen(questions.rows(self.tables["captures"].select(*columns).order_by("capture_id")), self._captures())
        refused = {*chosen.refused, *self._engine.read(new, chosen.read, **self._reading)}
        self._read.update(new)
        self.notes.append(raw.note(new, chosen, len({one.uri for one in refused})))
        if more := sorted(refused - {*self._refused}):
            self._refused += more
            rows = pa.Table.from_pylist([one._asdict() for one in self._refused], schema=schema.arrow(schema.REFUSED))
            stored = self._stored_refused.select(*rows.column_names)
            self.tables = {**self.tables, "refused": stored.union(self._engine.given("raw_refused", rows), distinct=True)}

    def open(self, capture: str, *, native_names: bool = True) -> reading.Capture:
        """Opens the capture with this id. Raises LookupError for another id, CaptureError if the
        file is gone."""
        stored = self._engine.stored("captures")
        uris = sorted(row["uri"] for row in questions.rows(stored.filter(stored.capture_id == capture).select("uri")))
        if not uris:
            raise LookupError(f"no capture with the id {capture!r}")
        place = captures.Capture(self._captures(), uris[0])
        if place.host is not None:
            raise CaptureError(f"{capture}: is on the host {place.host}, as {place.name}; wanted a capture of this machine")
        return reading.open(place.name, native_names=native_names)

    def close(self) -> None:
        """Ends the engine, and a Spark session that was started for it."""
        self._engine.close()
        if self._source.use is not None:
            self._source.use.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _asked(self) -> questions.Asked:
        if self._kept is None:
            self._kept = questions.asked(self._chosen, self._engine)
        return self._kept

    def _captures(self) -> Path | None:
        return self._source.captures

    def __repr__(self) -> str:
        return f"<dashcam fleet {self.uri!r}>"


def _of_files(stored: Mapping[str, ir.Table], live: ir.Table) -> dict[str, ir.Table]:
    """What the tables have of these files. Of a file that was replaced, what is there now; a log grows,
    and its lines remain."""
    logs = live.filter(live.bytes.isnull())
    captured, refused = (stored[name].semi_join(live, ["uri", "bytes"]) for name in ("captures", "refused"))
    return {"captures": captured, "refused": refused.union(stored["refused"].semi_join(logs, "uri")),
            "rollups": stored["rollups"].semi_join(logs, "uri")}


def time(given: str | datetime.datetime | None, now: datetime.datetime, what: str) -> datetime.datetime | None:
    """A time in UTC: "7d" is so long before now; else a date or a time of ISO 8601. Raises
    ValueError."""
    if given is None:
        return None
    if isinstance(given, str) and re.fullmatch(r"\d+(\.\d+)?[mhdw]", given.strip()):
        return now - datetime.timedelta(seconds=seconds(given, what))
    try:
        found = given if isinstance(given, datetime.datetime) else datetime.datetime.fromisoformat(given.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{what}: found {given!r}, wanted a time before now like 90m, 24h, 7d, or 2026-11-21, "
                         "2026-11-21T10:00 (UTC)") from None
    return found.astimezone(datetime.timezone.utc).replace(tzinfo=None) if found.tzinfo else found


def seconds(given: str, what: str) -> float:
    """A length of time with its unit. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", given.strip())
    if not found or not 0 < float(found[1]) * UNITS[found[2]] < 1e10:
        raise ValueError(f"{what}: found {given!r}, wanted a time with its unit, like 90m, 24h or 7d")
    return float(found[1]) * UNITS[found[2]]
