"""`why --alert`: what is new or worse since the last time, for a command that cron starts.

How it works: a small file remembers the causes that were there the last time. A cause that is not
in it is *new*; *worse* is what `diff` says of the last hours against the hours before. What is found
is given to a command; only if that succeeds is it remembered.

What it promises: each new cause is reported once, a worse one once until it is worse no longer. The
first time remembers what is there and reports nothing new: every cause would be. A cause that was
away for `FORGET_DAYS` is new again. Two runs at once: the second is refused. A state that cannot be
read is an error, never an empty one.

What is missing on purpose: receivers. The command has them.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dashcam._fleet.ask import answers, differing, wording
from dashcam.reading import CaptureError

# A cause with a smaller part of the excess is noise.
SHARE_MIN = differing.SHARE_MIN
# No more causes can have so large a part.
CAUSES_MAX = round(1 / SHARE_MIN)
FORGET_DAYS = 30
# The command has so long.
LIMIT_S = 60
Row = dict[str, Any]


class News(NamedTuple):
    """What is new or worse."""

    new: list[Row]
    worse: list[Row]
    is_first: bool
    """Nothing was known before."""
    causes: int
    """Causes that are there."""

    def __bool__(self) -> bool:
        return bool(self.new or self.worse)

    def json(self) -> Row:
        """As `dashcam fleet why --alert --json` prints it."""
        return answers.whole({"schema": 1, "new": self.new, "worse": self.worse, "is_first": self.is_first, "causes": self.causes})

    @property
    def text(self) -> str:
        """As `dashcam fleet why --alert` prints it."""
        return wording.news(self.new, self.worse, self.is_first, self.causes)


class State:
    """The causes that were known the last time, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.causes: dict[str, Row] | None = None
        """None: there is no file yet."""

    def read(self) -> None:
        """Raises CaptureError for a file of another form."""
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise CaptureError(f"{self.path}: cannot be read: {error}; wanted a state of --alert, or no file") from None
        known = found.get("causes") if isinstance(found, dict) and found.get("schema") == 1 else None
        if not isinstance(known, dict) or not all(isinstance(row, dict) for row in known.values()):
            raise CaptureError(f"{self.path}: found something else, wanted a state of --alert, or no file")
        self.causes = known

    def news(self, causes: list[Row], worse: list[Row], now: datetime.datetime) -> News:
        """What was not known, and is now."""
        known = self.causes or {}
        large = [row for row in causes if row["share"] >= SHARE_MIN]
        new = [] if self.causes is None else [row for row in large if key(row) not in known or _is_stale(known[key(row)], now)]
        fresh = {key(row) for row in new}
        grown = [row for row in worse if key(row) not in fresh and not known.get(key(row), {}).get("is_worse")]
        return News(new, [] if self.causes is None else grown, self.causes is None, len(causes))

    def remember(self, causes: list[Row], worse: list[Row], now: datetime.datetime) -> None:
        """Writes what is known now. Raises OSError."""
        bad = {key(row) for row in worse}
        known = {name: row | {"is_worse": name in bad} for name, row in (self.causes or {}).items() if not _is_stale(row, now)}
        for row in causes:
            if row["share"] >= SHARE_MIN or key(row) in known:
                known[key(row)] = {"last_utc": now.isoformat(), "is_worse": key(row) in bad}
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"schema": 1, "causes": known}, indent=1) + "\n", "utf-8")
        part.replace(self.path)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other runs with this state away. Raises CaptureError if there is one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.with_name(f"{self.path.name}.lock"), "a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CaptureError(f"{self.path}: another run of --alert has it; wanted one at a time, or --state with another file") from None
            yield


def key(row: Row) -> str:
    """What identifies a cause."""
    return f"{row['service']} {row['fingerprint']}"


def default_path(uri: str) -> Path:
    """The state of a source, unless another file is given."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "dashcam" / f"fleet-alert-{hashlib.sha256(uri.encode('utf-8', 'replace')).hexdigest()[:16]}.json"


def run(command: str, given: str) -> str | None:
    """Runs a command of the shell with the news on its stdin; what went wrong, if anything."""
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=given, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end within {LIMIT_S} s"
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else f"ended with exit code {done.returncode}, wanted 0"


def _is_stale(row: Row, now: datetime.datetime) -> bool:
    try:
        last = datetime.datetime.fromisoformat(row["last_utc"])
    except (KeyError, TypeError, ValueError):
        return False
    return now - last > datetime.timedelta(days=FORGET_DAYS)
