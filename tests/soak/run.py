#!/usr/bin/env python3
"""Checks that memory, descriptors and threads of a server remain flat under `dashcam run`.

How it works: the HTTP services of `tests/conformance/servers.py` run side by side, each twice: bare
and recorded. All get their exchanges in turn, RATE per second, for MINUTES. Every few seconds the
processes of each are measured. Compared are two medians: the second quarter of the time (the first
is warm-up) and the last.

What it promises: a service whose recorded processes grow more than the bare ones by over FLAT_KIB,
or end with more descriptors or threads than they had, fails. A service that stops answering fails,
too.

Missing on purpose: the speed of answers. Shared memory is shown, not judged: the box fills up to
its size.

    tests/soak/run.py [--minutes 60] [--rate 5] [SERVICE ...]      parts of names
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Optional

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS / "tools")]
import limited  # noqa: E402
import run as conformance  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

# The growth that a recorded service may have beyond the bare one, between the two quarters. An
# allocator's noise is below; one small object lost for each of 10,000 requests is above.
FLAT_KIB = 1024
# A thread or descriptor that serves a connection may be open at the moment of a measurement.
FLAT_COUNT = 2
MEASURED_EVERY_S = 5.0
# Exchanges whose client has to wait for the server's time limits, and that show nothing about
# memory.
LEFT_OUT = ("leaves", "bad request", "waits_for_the_end")


class Size(NamedTuple):
    """All processes of one service, at one moment. In KiB: private and shared memory."""

    private: int
    shared: int
    descriptors: int
    threads: int


class Side:
    """One service, bare or recorded, and its measurements."""

    def __init__(self, service: servers.Service, recorded: bool, folder: Path) -> None:
        self.service = service
        self.port = conformance.free_port()
        self.sizes: list[Size] = []
        self.asked = 0
        self.failure: Optional[str] = None
        self._log = folder / "log"
        folder.mkdir(parents=True)
        env = {**os.environ, "CONFORMANCE_NOTES": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(servers.APPLICATIONS)}
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                conformance._command(service, self.port, recorded, folder), cwd=servers.APPLICATIONS, env=env,
                stdout=log, stderr=log, start_new_session=True)

    def ask(self, until: float, rate: float) -> None:
        """Makes the exchanges, `rate` per second, until `until` (monotonic seconds)."""
        exchanges = [(name, exchange) for name, exchange in self.service.exchanges.items()
                     if not any(part in name for part in LEFT_OUT)]
        if not wire.answers(self.port, lambda: self.process.poll() is None):
            self.failure = "it does not listen"
        due = time.monotonic()
        while not self.failure and (now := time.monotonic()) < until:
            name, exchange = exchanges[self.asked % len(exchanges)]
            try:
                exchange(self.port, name)
            except OSError as error:
                self.failure = f"{name}: {error}"
            self.asked += 1
            due = max(due + 1 / rate, now)
            time.sleep(max(0.0, due - time.monotonic()))

    def measure(self) -> None:
        """Adds a measurement, unless the service has ended."""
        sizes = [size for size in map(_size, _group(self.process.pid)) if size]
        if sizes:
            self.sizes.append(Size(*(sum(column) for column in zip(*sizes))))

    def medians(self) -> tuple[Size, Size]:
        """Of the second and of the last quarter of the time."""
        quarter = len(self.sizes) // 4
        if not quarter:
            raise ValueError(f"{len(self.sizes)} measurements, at least 4 wanted: let it run longer")
        parts = (self.sizes[quarter:2 * quarter], self.sizes[-quarter:])
        first, last = (Size(*(int(statistics.median(column)) for column in zip(*part))) for part in parts)
        return first, last

    def log(self) -> str:
        """The end of its output."""
        return self._log.read_text("utf-8", "replace")[-1500:]

    def end(self) -> None:
        """Ends it, with all its processes."""
        limited.end(self.process)
        self.process.wait()


def _group(leader: int) -> list[Path]:
    """The folders in /proc of the processes of a group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(folder.name)) == leader:
                found.append(folder)
    return found


def _size(process: Path) -> Optional[Size]:
    """One process; None if it has ended. The sampler's descriptors are in a table of their own."""
    with contextlib.suppress(OSError):
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        tables = [process, *(task for task in (process / "task").iterdir()
                             if (task / "comm").read_text().startswith("dashcam-samp"))]
        return Size(*(int(status.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")),
                    sum(len(os.listdir(table / "fd")) for table in tables), int(status["Threads"]))
    return None


def _line(name: str, bare: Side, recorded: Side) -> tuple[str, bool]:
    """A row of the table, and whether it is flat."""
    (bare_first, bare_last), (first, last) = bare.medians(), recorded.medians()
    grown, bare_grown = last.private - first.private, bare_last.private - bare_first.private
    flat = (grown - max(bare_grown, 0) <= FLAT_KIB and last.descriptors - first.descriptors <= FLAT_COUNT
            and last.threads - first.threads <= FLAT_COUNT)
    mib = [f"{size / 1024:.1f}" for size in (bare_first.private, bare_last.private, first.private, last.private)]
    return (f"| {name} | {recorded.asked:,} | {mib[0]} → {mib[1]} | {mib[2]} → {mib[3]} | {last.shared / 1024:.0f} | "
            f"{first.descriptors} → {last.descriptors} | {first.threads} → {last.threads} | "
            f"{'yes' if flat else 'NO'} |", flat)


def _run(chosen: dict[str, servers.Service], minutes: float, rate: float, folder: Path) -> dict[str, tuple[Side, Side]]:
    until = time.monotonic() + minutes * 60
    sides = {name: (Side(service, False, folder / str(at) / "bare"), Side(service, True, folder / str(at) / "recorded"))
             for at, (name, service) in enumerate(chosen.items())}
    both = [side for pair in sides.values() for side in pair]
    threads = [threading.Thread(target=side.ask, args=(until, rate)) for side in both]
    try:
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            time.sleep(MEASURED_EVERY_S)
            for side in both:
                side.measure()
        for thread in threads:
            thread.join()
    finally:
        for side in both:
            side.end()
    return sides


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of services; without any, all")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=5, help="exchanges a second, of each service")
    given = parser.parse_args()
    known = {name: service for name, service in servers.services().items() if service.exchanges}
    chosen = {name: service for name, service in known.items()
              if not given.names or any(part in name for part in given.names)}
    for name in [name for name, service in chosen.items() if any(map(_is_missing, service.needs))]:
        print(f"{name}: not run: {', '.join(filter(_is_missing, chosen.pop(name).needs))} is not installed", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        sides = _run(chosen, given.minutes, given.rate, Path(folder))
        print("| service | exchanges | bare, MiB | recorded, MiB | shared, MiB | descriptors | threads | flat |")
        print("| --- | --: | --: | --: | --: | --: | --: | --- |")
        failed = 0
        for name, (bare, recorded) in sides.items():
            failures = [f"{side}: {of.failure}" for side, of in (("bare", bare), ("recorded", recorded)) if of.failure]
            if failures:
                print(f"| {name} | {'; '.join(failures)} |\n{recorded.log()}")
            else:
                row, flat = _line(name, bare, recorded)
                print(row)
            failed += bool(failures) or not flat
    print(f"soak: {len(sides)} services for {given.minutes:g} minutes, {failed} failed")
    return 1 if failed else 0


def _is_missing(module: str) -> bool:
    return importlib.util.find_spec(module) is None


if __name__ == "__main__":
    sys.exit(main())
