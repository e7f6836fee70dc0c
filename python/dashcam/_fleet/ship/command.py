"""`dashcam ship`: the command.

How it works: it gives way to every other process (nice 19), waits for its turn at the state file,
and sends what is new: once, or in turn with pauses (`--every`) until SIGTERM or SIGINT. Then it
sends what is new a last time, for at most `LAST_S`: a container's folder goes with it.

What it promises: data on stdout, the rest on stderr. Exit codes: 0 all was sent, or it was asked to
end; 2 usage; 3 the source cannot be read, or the destination not be written. What was not sent is
sent by the next run. A second signal ends it at once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from dashcam import sql
from dashcam.reading import CaptureError

FINE, USAGE, UNREADABLE = 0, 2, 3
NICE = 19
# Kubernetes kills 30 s after SIGTERM.
LAST_S = 20.0
UNITS = {"s": 1, "m": 60, "h": 3600}
EPILOG = "As a hook: DASHCAM_HOOK=\"dashcam ship --to DEST\". docs/guide/fleet.md explains what is sent."


def main(words: list[str]) -> int:
    """Sends what is new. Arguments: those of `dashcam ship`."""
    try:
        given = parser().parse_args(words)
    except SystemExit as end:
        return int(end.code or 0)
    if (given.to is None) == (given.dest is None):
        say("found DEST twice, wanted it once" if given.to else "wanted DEST: a folder, or an address like s3://bucket/fleet")
        return USAGE
    asked, stop = threading.Event(), threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: _end(asked, stop, number))
    try:
        return _ship(given, asked, stop)
    except ImportError as error:
        say(f"{error} (by {sys.executable}); wanted: {sys.executable} -m pip install 'dashcam[ship]'")
        return USAGE
    except (CaptureError, OSError) as error:
        say(str(error))
        return UNREADABLE


def parser() -> argparse.ArgumentParser:
    """The parser."""
    whole = argparse.ArgumentParser(
        prog="dashcam ship", epilog=EPILOG, allow_abbrev=False,
        description="Judges new captures on this host and sends their rows to where the fleet's tables are.")
    whole.add_argument("source", metavar="SRC", type=Path, help="the folder of captures (OUT), or a capture in it")
    whole.add_argument("dest", metavar="DEST", nargs="?", help="a folder, or an address like s3://bucket/fleet")
    whole.add_argument("--to", metavar="DEST", help="the same as DEST")
    whole.add_argument("--every", type=_time, metavar="TIME", help="again at these intervals, until SIGTERM: 60s, 10m")
    whole.add_argument("--no-redact", action="store_true", help="send texts as they are: targets, reasons, labels, names of requests")
    whole.add_argument("--no-native-names", action="store_true", help="do not name native code from this host's binaries (quicker)")
    whole.add_argument("--state", type=Path, metavar="FILE", help="what was sent [a file in SRC]")
    whole.add_argument("--json", action="store_true", help="print JSON")
    return whole


def _ship(given: argparse.Namespace, asked: threading.Event, stop: threading.Event) -> int:
    from dashcam._fleet.ship import shipping, state
    from dashcam._fleet.tables import places

    os.nice(NICE)
    source = given.source if given.source.is_dir() else given.source.parent
    if not source.is_dir():
        raise CaptureError(f"{source}: found no folder, wanted one with captures")
    dest = given.to or given.dest
    place = places.opened(dest)
    path = given.state or state.place(source, dest)
    with state.locked(path, asked) as is_ours:
        while is_ours:
            is_last = given.every is None or asked.is_set()
            known = state.State(path)
            if known.note:
                say(known.note)
            shipper = shipping.Shipper(source, place, known, is_redacted=not given.no_redact, native_names=not given.no_native_names,
                                       report=say, asked=asked, stop=stop)
            try:
                _print(given, shipper.all(shipping.TRIES if given.every is None else None))
            except (shipping.Stopped, OSError) as error:
                if not asked.is_set():
                    raise
                say(f"ended before all was sent, the next run sends the rest{f': {error}' if str(error) else ''}")
                break
            if is_last:
                break
            asked.wait(given.every)
    return FINE


def _print(given: argparse.Namespace, sent: Any) -> None:
    if given.json:
        print(json.dumps({"schema": 1, **sent._asdict()}), flush=True)
    elif any(sent) or given.every is None:
        print(f"{sent.captures} captures, {sent.counts} rows of counts, {sent.refused} refused; {sent.files} files of Parquet sent", flush=True)


def _end(asked: threading.Event, stop: threading.Event, number: int) -> None:
    """The first signal ends it in order, the second one at once."""
    signal.signal(number, signal.SIG_DFL)
    asked.set()
    timer = threading.Timer(LAST_S, stop.set)
    timer.daemon = True
    timer.start()


def say(text: str) -> None:
    """A line on stderr."""
    sql.say(f"ship: {text}")


def _time(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not found or not 1 <= float(found[1]) * UNITS[found[2]] <= 86_400:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted 1s to 24h, like 60s or 10m")
    return float(found[1]) * UNITS[found[2]]
