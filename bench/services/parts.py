"""Where the cost of recording goes: one server for each part that is switched off, side by side.

The servers of all rows run at once on one CPU and are asked in turns of some hundred requests, each
round beginning with another one. A row adds one part to the row above it, so the cost of a part is
the difference of two rows. Counted is CPU time, by the kernel's count for each thread: other
programs of the machine disturb it much less than the time on the clock.

    service   us a request of the service's own threads, and what that is of the bare service's:
              ratios inside a round, their median and its 95 % interval
    dashcam   CPU of dashcam's threads, % of a core: their budget goes by the clock
    of one core  what is left of the throughput of a service that has one core, by these two
    switches  how often the service's threads got the CPU, a request

Servers are started anew now and then, since the memory of each lies elsewhere. Needs what run.py
needs.

    python bench/services/parts.py [--service flask|fastapi] [--row ROW ...] [--rounds N]

Instructions instead of time: bench/python/counted.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import run
from clients import Clients

#: Rounds that a set of servers lives, and requests before the first one.
SET, WARM_UP = 10, 2000
RUN = ["dashcam", "run", "--slow", "10s", "--service", "bench", "--out", "{out}", "--"]
#: Hardly any pass of the sampler.
REST = {"DASHCAM_RATE_HZ": "1", "DASHCAM_THREADS": "1", "DASHCAM_BUDGET_PERCENT": "0.01"}
NO_SWITCHES = {"DASHCAM_SWITCHES": "off"}
#: Row -> (words in front of the command, environment, whether recording is on).
ROWS: dict[str, tuple[list[str], dict[str, str], bool]] = {
    "nothing": ([], {}, True),
    "nothing, again": ([], {}, True),
    "hooks, recording off": (RUN, {**NO_SWITCHES, **REST}, False),
    "+ requests recorded": (RUN, {**NO_SWITCHES, **REST}, True),
    "+ sampler": (RUN, NO_SWITCHES, True),
    "+ switch records": (RUN, {}, True),
}


@dataclass
class Counts:
    """For each round: us of CPU a request of the service's threads, and how often they got the CPU;
    of dashcam's threads the share of a core, and passes and samples a second.
    """

    own: list[float] = field(default_factory=list)
    switches: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """What was counted so far: CPU time in ns and switches of the service's threads, CPU time of
    dashcam's, passes and samples; and when.
    """

    own_ns: int
    switches: int
    ours_ns: int
    passes: int
    samples: int
    at_ns: int


def threads(pids: list[int]) -> tuple[int, int, int]:
    """CPU time and switches of the service's threads, and CPU time of dashcam's."""
    own = switches = ours = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                name = (task / "comm").read_text(encoding="utf-8", errors="replace")
                spent, _, slices = (task / "schedstat").read_text(encoding="ascii").split()
            except OSError:
                continue  # it ended
            if name.startswith("dashcam-"):
                ours += int(spent)
            else:
                own += int(spent)
                switches += int(slices)
    return own, switches, ours


class Row:
    """A server."""

    def __init__(self, service: str, name: str, collector: run.Collector) -> None:
        words, env, on = ROWS[name]
        run.VARIANTS[name] = (words, env)
        self.records = bool(words)
        self.server = run.Server(service, name, collector)
        root = self.server.process.pid
        workers = subprocess.run(["pgrep", "-P", str(root)], capture_output=True, text=True).stdout.split()
        self.pids = [root, *map(int, workers)]
        if not on:
            subprocess.run([run.BIN / "dashcam", "set", str(self.pids[-1]), "off"], check=True, capture_output=True)
        self.ask(WARM_UP)

    def ask(self, requests: int, counts: Counts | None = None) -> None:
        """A turn, by connections of its own: servers close those that are idle for seconds."""
        clients = Clients(self.server.port)
        clients.ask(requests // 8)
        before = self.seen()
        clients.ask(requests)
        after = self.seen()
        clients.close()
        if counts is None:
            return
        wall_ns = after.at_ns - before.at_ns
        counts.own.append((after.own_ns - before.own_ns) / requests / 1e3)
        counts.switches.append((after.switches - before.switches) / requests)
        counts.ours.append((after.ours_ns - before.ours_ns) / wall_ns)
        counts.passes.append((after.passes - before.passes) / wall_ns * 1e9)
        counts.samples.append((after.samples - before.samples) / wall_ns * 1e9)

    def seen(self) -> Seen:
        """All counts. dashcam's own are asked for outside of the service's time."""
        passes = samples = 0
        if self.records:
            words = [run.BIN / "dashcam", "status", str(self.pids[-1]), "--json"]
            status = subprocess.run(words, capture_output=True, text=True)
            sampler = json.loads(status.stdout)["sampler"] if status.returncode == 0 else {}
            passes, samples = sampler.get("passes", 0), sampler.get("samples", 0)
        own, switches, ours = threads(self.pids)
        return Seen(own, switches, ours, passes, samples, time.monotonic_ns())

    def stop(self) -> None:
        """Ends it."""
        self.server.stop()


@contextlib.contextmanager
def servers(service: str, names: list[str], collector: run.Collector) -> Iterator[dict[str, Row]]:
    """One of each row, warmed up."""
    rows: dict[str, Row] = {}
    try:
        for name in random.sample(names, len(names)):
            rows[name] = Row(service, name, collector)
        yield rows
    finally:
        for row in rows.values():
            row.stop()


def measure(service: str, names: list[str], rounds: int, requests: int) -> dict[str, Counts]:
    """All rounds."""
    found = {name: Counts() for name in names}
    with run.Collector() as collector:
        for begin in range(0, rounds, SET):
            with servers(service, names, collector) as rows:
                for at in range(begin, min(begin + SET, rounds)):
                    for name in names[at % len(names):] + names[:at % len(names)]:
                        rows[name].ask(requests, found[name])
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median and its 95 % interval."""
    ordered, count = sorted(values), len(values)
    reach = 0.98 * count**0.5
    low, high = (ordered[min(max(0, round(count / 2 + at)), count - 1)] for at in (-reach, reach))
    return statistics.median(ordered), low, high


def show(service: str, found: dict[str, Counts]) -> None:
    """A line for each row."""
    print(f"\n{service}")
    print(f"{'':24}{'service us':>11}{'of nothing':>26}{'dashcam %':>11}{'of one core':>13}{'switches':>10}"
          f"{'passes/s':>10}{'samples/s':>11}")
    median = statistics.median
    for name, counts in found.items():
        middle, low, high = interval([own / of for own, of in zip(counts.own, found["nothing"].own)])
        ours = median(counts.ours)
        print(f"{name:24}{median(counts.own):>11.1f}{middle:>9.1%} ({low:>6.1%} - {high:>6.1%}){ours:>11.2%}"
              f"{(1 - ours) / middle:>13.1%}{median(counts.switches):>10.2f}{median(counts.passes):>10.0f}"
              f"{median(counts.samples):>11.0f}", flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--service", choices=list(run.SERVICES), action="append")
    parser.add_argument("--row", choices=list(ROWS), action="append", help="only these, beside nothing")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--requests", type=int, default=400)
    given = parser.parse_args()
    os.sched_setaffinity(0, {int(run.LOAD_CPU)})
    names = [name for name in ROWS if not given.row or name == "nothing" or name in given.row]
    for service in given.service or list(run.SERVICES):
        show(service, measure(service, names, given.rounds, given.requests))


if __name__ == "__main__":
    sys.exit(main())
