"""A child that is waited for and the process behind a pipe are named. Table `gil` lists the GIL's
holders, and for how long; table `gc` every collection, with its thread and its counts. The programs
measure the same themselves and print it: two measured values are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dashcam
import pyarrow
from conftest import Bench

Rows = list[dict[str, Any]]


def recorded(bench: Bench, code: str) -> tuple[dict[str, Any], dict[str, Rows]]:
    """Runs a program that prints its measurements and, below, the path of its capture; returns
    both.
    """
    begin = f"import dashcam, json\ndashcam.start(slow='50ms', out={str(bench.folder)!r})\n"
    result = bench.python(begin + code + "\nprint(json.dumps(reported))\nprint(dashcam.snap('read'))\n")
    assert result.returncode == 0, result.stderr
    reported, path = result.stdout.strip().splitlines()[-2:]
    tables = dashcam.open(Path(path)).tables
    wanted = ("requests", "waits", "gil", "gc")
    return json.loads(reported), {name: pyarrow.table(tables[name]).to_pylist() for name in wanted}


def of_request(tables: dict[str, Rows], name: str) -> Rows:
    """The waits of the thread of a request in it."""
    request = next(row["request_id"] for row in tables["requests"] if row["name"] == name)
    return [row for row in tables["waits"] if row["request_id"] == request]


def test_a_child_and_the_process_behind_a_pipe_are_named(bench: Bench) -> None:
    reported, tables = recorded(bench, """
import os, subprocess
reported = {}
with dashcam.request("child"):
    child = subprocess.Popen(["sleep", "0.6"])
    reported["wait4"] = child.wait()
with dashcam.request("answer"):
    child = subprocess.Popen(["sh", "-c", "sleep 0.6; echo done; exit 3"], stdout=subprocess.PIPE)
    reported["said"] = os.read(child.stdout.fileno(), 100).decode()
with dashcam.request("both"):
    child = subprocess.Popen(["sh", "-c", "sleep 0.6; exit 3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.communicate()
""")
    assert reported == {"wait4": 0, "said": "done\n"}
    # Long compared with the time to find the awaited process: the longest wait is the right one.
    for request, kind, target in (("child", "child wait", "child process sleep"),
                                  ("answer", "pipe read", "a pipe of child process sh"),
                                  ("both", "poll", "a pipe of child process sh")):
        waits = of_request(tables, request)
        longest = max(waits, key=lambda row: int(row["duration_ns"]))
        assert (longest["kind"], longest["target"]) == (kind, target), waits


def test_the_gils_holder_has_the_time_the_program_measured(bench: Bench) -> None:
    reported, tables = recorded(bench, """
import threading, time
reported = {"waited_ns": 0, "tid": 0, "waiter": threading.get_native_id()}
asked, done = threading.Semaphore(0), threading.Semaphore(0)
kept = [0, 0]

def elsewhere_ns():
    # What the waiter ran, and waited for a CPU, since it began: waiting for the GIL is neither.
    with open(f"/proc/self/task/{reported['waiter']}/schedstat") as file:
        return sum(map(int, file.read().split()[:2]))

def keeps():
    begin = time.monotonic_ns()
    # One call into C: the GIL is let go of when it is over, and not before.
    sum(range(30_000_000))
    kept[:] = begin, time.monotonic_ns()

def other():
    reported["tid"] = threading.get_native_id()
    while True:
        asked.acquire()
        keeps()
        done.release()

threading.Thread(target=other, daemon=True).start()
for _ in range(4):
    before_ns = elsewhere_ns()
    with dashcam.request("waits"):
        asked.release()
        awake = time.monotonic_ns() + 20_000_000
        time.sleep(0.02)
        back = time.monotonic_ns()
    done.acquire()
    # From when it would have gone on until it did, or until the GIL was let go of; less what it lacked a CPU.
    reported["waited_ns"] += min(kept[1], back) - max(kept[0], awake) - (elsewhere_ns() - before_ns)
""")
    rows = [row for row in tables["gil"] if row["waiter_tid"] == reported["waiter"] and row["waiter_request_id"]]
    by_holder: dict[Any, int] = {}
    for row in rows:
        place = (row["holder_tid"], (row["holder_place"] or "?").rsplit(" ", 1)[-1])
        by_holder[place] = by_holder.get(place, 0) + int(row["duration_ns"])
    total = by_holder.get((reported["tid"], "keeps()"), 0)
    assert reported["waited_ns"] > 0, reported
    assert abs(total - reported["waited_ns"]) <= 0.2 * reported["waited_ns"], (reported, by_holder, rows)


def test_every_collection_has_its_thread_and_counts(bench: Bench) -> None:
    reported, tables = recorded(bench, """
import gc, threading
reported = []

def make(cycles):
    for _ in range(cycles):
        cycle = []
        cycle.append(cycle)

def collects(cycles, generation):
    make(cycles)
    found = gc.collect(generation)
    reported.append([threading.get_native_id(), generation, cycles, found])

gc.disable()
gc.collect()
for cycles, generation in ((10_000, 0), (20_000, 1), (30_000, 2)):
    collects(cycles, generation)
thread = threading.Thread(target=collects, args=(40_000, 2))
thread.start()
thread.join()
""")
    wanted = {(tid, generation, cycles) for tid, generation, cycles, _ in reported}
    assert len({tid for tid, _, _ in wanted}) == 2
    # As the interpreter counts them, too.
    assert all(found == cycles for _, _, cycles, found in reported), reported
    rows = [row for row in tables["gc"] if row["collected"] >= 10_000]
    assert {(row["tid"], row["generation"], row["collected"]) for row in rows} == wanted, rows
    assert len(rows) == 4
    assert all(row["duration_ns"] == row["end_ns"] - row["begin_ns"] > 0 for row in rows), rows
    assert rows == sorted(rows, key=lambda row: row["begin_ns"])
    assert all(before["end_ns"] <= after["begin_ns"] for before, after in zip(rows, rows[1:])), rows
