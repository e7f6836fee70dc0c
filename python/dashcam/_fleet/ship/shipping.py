"""Passes of `dashcam ship`: what is new in a folder of captures is judged and sent.

How it works: a pass takes a batch of captures and logs that `state` does not have, judges them in
children (`rows.children`), redacts the rows, and writes them to the destination as files whose
names are hashes of their bytes. What the batch is was written down before.

What it promises: a capture is judged once and its rows count once, whenever this process is killed.
Nothing is read or listed at the destination: credentials that may only put are enough. A destination
that fails is tried again, with pauses that double up to five minutes. A file that is no capture is a
row of `refused`. Captures are only read, and are removed by the recorder's `keep` alone.

What is missing on purpose: captures themselves. They stay on their host, where native code has names;
rows have the host and the file's name.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa

from dashcam._fleet.rows import children, counting, judging, schema
from dashcam._fleet.ship import redacting
from dashcam._fleet.ship.state import Part, State, log_key
from dashcam._fleet.tables import indexing, places, store

# Captures of a batch: their rows are in memory, and are judged again if this process is killed.
BATCH = 200
# Pauses after a failure.
PAUSE_S, PAUSE_MAX_S = 1.0, 300.0
# Of tries in a single pass: about half a minute.
TRIES = 6


class Sent(NamedTuple):
    """What a pass did."""

    captures: int = 0
    counts: int = 0
    """Rows of counts of requests."""
    refused: int = 0
    files: int = 0

    def plus(self, other: Sent) -> Sent:
        """Both together."""
        return Sent(*(mine + yours for mine, yours in zip(self, other)))


class Stopped(Exception):
    """This process was asked to end."""


class Shipper:
    """Sends what is new in `source` to `dest`."""

    def __init__(
        self, source: Path, dest: places.Place, state: State, *, is_redacted: bool = True, limits: children.Limits | None = None,
        native_names: bool = True, report: Callable[[str], None] = print, asked: threading.Event | None = None,
        stop: threading.Event | None = None, batch: int = BATCH,
    ) -> None:
        self.source, self.dest, self.state = source, dest, state
        self.is_redacted, self.limits, self.native_names = is_redacted, limits, native_names
        self.report, self.batch = report, batch
        # Asked to end: nothing is tried again. Stopped: the pass ends, too.
        self.asked, self.stop = asked or threading.Event(), stop or threading.Event()
        self.host = socket.gethostname()

    def all(self, tries: int | None = TRIES) -> Sent:
        """Sends all that is new. Raises OSError after so many tries (None: never), Stopped,
        CaptureError for a source that cannot be read."""
        whole = Sent()
        while self.plan():
            rows, refused = self._rows()
            files = list(store.files(redacting.redacted(rows) if self.is_redacted else rows))
            for name, data in files:
                self._put(name, data, tries)
            counted = rows[schema.ROLLUPS.name].num_rows if schema.ROLLUPS.name in rows else 0
            judged = rows[schema.CAPTURES.name].num_rows if schema.CAPTURES.name in rows else 0
            whole = whole.plus(Sent(judged, counted, refused, len(files)))
            self._done()
        return whole

    def plan(self) -> bool:
        """Writes down what is sent next, unless that was done before; whether there is anything."""
        if not self.state.batch:
            there = list(indexing.captures(self.source))
            self.state.sent({file.uri for file in there})
            new = (Part(file.uri, 0, file.bytes) for file in there if self.state.captures.get(file.uri) != file.bytes)
            self.state.batch = [*islice(new, self.batch), *self._logs()]
            if self.state.batch:
                self.state.save()
        return bool(self.state.batch)

    def _logs(self) -> Iterator[Part]:
        for file in indexing.logs(self.source):
            key = log_key(file.path)
            begin = self.state.logs.get(key, 0) if key else 0
            end = min(whole_lines(file.path), begin + counting.FILE_BYTES_MAX)
            if key and end > begin:
                yield Part(file.uri, begin, end)

    def _rows(self) -> tuple[dict[str, pa.Table], int]:
        """The rows of the batch, and how many files were refused. Raises Stopped."""
        found: dict[str, list[pa.Table]] = {}
        listed = [part for part in self.state.batch if not part.uri.endswith(indexing.LOGS)]
        # A capture that was removed meanwhile is none.
        there = [children.File(self.source / part.uri, self._uri(part.uri), part.end) for part in listed if (self.source / part.uri).is_file()]
        for judged in children.judge(there, jobs=1, limits=self.limits, native_names=self.native_names):
            self._check()
            if "refused" in judged.rows and not judged.file.path.exists():
                continue
            for name, rows in judged.rows.items():
                found.setdefault(name, []).append(rows)
        for part in self.state.batch:
            if part.uri.endswith(indexing.LOGS):
                self._count(part, found)
        refused = found.get(schema.REFUSED.name, [])
        for row in (row for table in refused for row in table.to_pylist()):
            self.report(f"{row['uri']}: refused: {row['why']}")
        return {name: pa.concat_tables(parts) for name, parts in found.items()}, len(refused)

    def _count(self, part: Part, found: dict[str, list[pa.Table]]) -> None:
        try:
            counted = counting.rows(self.source / part.uri, self._uri(part.uri), part.end, begin=part.begin)
        except judging.Refused as refused:
            found.setdefault(schema.REFUSED.name, []).append(judging.refusal(self._uri(part.uri), part.end, str(refused)))
            return
        found.setdefault(schema.ROLLUPS.name, []).append(counted.rows)
        if counted.wrong:
            why = f"{counted.wrong} lines were passed over; {counted.why}"
            found.setdefault(schema.REFUSED.name, []).append(judging.refusal(self._uri(part.uri), part.end, why))

    def _done(self) -> None:
        for part in self.state.batch:
            if part.uri.endswith(indexing.LOGS):
                # It may have been renamed: then its lines are sent again, and count once.
                if key := log_key(self.source / part.uri):
                    self.state.logs[key] = part.end
            else:
                self.state.captures[part.uri] = part.end
        self.state.batch = []
        self.state.save()

    def _put(self, name: str, data: bytes, tries: int | None) -> None:
        pause, failed = PAUSE_S, 0
        while True:
            self._check()
            try:
                store.put(self.dest, name, data)
                return
            except OSError as error:
                failed += 1
                if self.asked.is_set() or (tries is not None and failed >= tries):
                    raise
                if failed == 1:
                    self.report(f"{self.dest}: {error}; tried again, at intervals of up to {PAUSE_MAX_S:.0f} s")
            # Many hosts lose the same destination at the same time.
            self.asked.wait(pause * random.uniform(0.5, 1.0))
            pause = min(PAUSE_MAX_S, pause * 2)

    def _check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def _uri(self, name: str) -> str:
        """A file as rows name it."""
        return f"//{quote(self.host, safe='')}/{name}"


def whole_lines(path: Path) -> int:
    """The end of a log's last whole line; 0 if there is none, or the log is gone."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            begin = max(0, size - counting.LINE_BYTES_MAX)
            file.seek(begin)
            last = file.read(size - begin).rfind(b"\n")
            return begin + last + 1 if last >= 0 else 0
    except OSError:
        return 0
