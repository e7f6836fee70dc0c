"""What `dashcam ship` has sent, in a file beside the captures.

    {"schema": 1, "captures": {NAME: BYTES}, "logs": {KEY: BYTES}, "batch": [[NAME, FROM, TO], ...]}

How it works: before a batch is judged it is written here, so after a crash the same batch is sent
again: the same rows, under the same names, which are there once. A log is known by a hash of its
first line, since a full one is renamed. Names of captures that are gone are forgotten.

What it promises: the file is replaced as a whole. Without it, or with one that is damaged,
everything is sent again, which counts nothing twice. A lock beside it keeps a second `ship` of the
same captures waiting.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA = 1
# How often a lock is tried.
LOCK_S = 0.2


class Part(NamedTuple):
    """A file, or the part of a log, that is sent."""

    uri: str
    begin: int
    end: int


class State:
    """What was sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.captures: dict[str, int] = {}
        self.logs: dict[str, int] = {}
        self.batch: list[Part] = []
        self.note = ""
        """Why a file that was there is not used."""
        try:
            self._take(json.loads(path.read_bytes()))
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, KeyError, AttributeError):
            self.captures, self.logs, self.batch = {}, {}, []
            self.note = f"{path}: found no state of `dashcam ship`; everything is sent again, and counts once"

    def save(self) -> None:
        """Replaces the file. Raises OSError."""
        whole = {"schema": SCHEMA, "captures": self.captures, "logs": self.logs, "batch": self.batch}
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(whole, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)

    def sent(self, there: set[str]) -> None:
        """Forgets captures that are not `there` any more."""
        self.captures = {uri: size for uri, size in self.captures.items() if uri in there}

    def _take(self, found: Any) -> None:
        if found["schema"] != SCHEMA:
            raise ValueError
        self.captures = {str(uri): int(size) for uri, size in found["captures"].items()}
        self.logs = {str(key): int(size) for key, size in found["logs"].items()}
        self.batch = [Part(str(uri), int(begin), int(end)) for uri, begin, end in found["batch"]]


def place(source: Path, dest: str) -> Path:
    """Where the state of a source and a destination is."""
    return source / f".dashcam-ship-{hashlib.sha256(dest.encode()).hexdigest()[:12]}.json"


@contextlib.contextmanager
def locked(path: Path, stop: threading.Event) -> Iterator[bool]:
    """Waits until no other `ship` uses this state; False: `stop` was set meanwhile. Raises OSError
    if it cannot be written."""
    try:
        file = open(path.with_name(f"{path.name}.lock"), "w")
    except OSError as error:
        raise OSError(f"{path}: {error.strerror}; wanted a place that can be written (--state FILE)") from None
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop.wait(LOCK_S):
                    yield False
                    return
        yield True


def log_key(path: Path) -> str | None:
    """What a log is known by; None: it has no whole line yet, or is gone."""
    try:
        with open(path, "rb") as file:
            line = file.readline(1 << 16)
    except OSError:
        return None
    return hashlib.sha256(line).hexdigest()[:16] if line else None
