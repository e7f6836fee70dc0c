"""Threads that did not run since their last sample are not sampled again. Without the kernel's
switch records their CPU times are read now and then, and nothing else."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import dashcam
import pyarrow
import pytest
from conftest import Bench

THREADS, FEW = 300, 8
PROGRAM = """
    import json, os, threading, time
    import dashcam

    count = int(os.environ["COUNT"])
    end, asleep = threading.Event(), threading.Barrier(count + 1)
    def sleeps():
        asleep.wait()
        end.wait()
    threads = [threading.Thread(target=sleeps) for _ in range(count)]
    for thread in threads: thread.start()
    asleep.wait()
    dashcam.start(slow="10m")
    # As many looks as there are threads; another 3 s are for those that are left, and to look again.
    while dashcam.status()["sampler"]["samples"] < count: time.sleep(0.1)
    before = dashcam.status()
    time.sleep(3)
    after = dashcam.status()
    print(json.dumps(dict(before=before["sampler"], after=after["sampler"], switches=after["sources"]["switches"],
                          path=str(dashcam.snap()),
                          sleeping=[thread.native_id for thread in threads])))
    end.set()
"""


def run(bench: Bench, switches: str, count: int = THREADS) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The program's own report, and the samples of its sleeping threads."""
    result = bench.python(PROGRAM, COUNT=str(count), DASHCAM_SWITCHES=switches)
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    samples = pyarrow.table(dashcam.open(Path(bench.folder, reported["path"])).tables["samples"]).to_pylist()
    return reported, [row for row in samples if row["tid"] in set(reported["sleeping"])]


def test_with_switch_records_a_sleeping_thread_is_not_sampled_again(bench: Bench) -> None:
    reported, samples = run(bench, "on")
    if reported["switches"] != "on":
        pytest.skip(f"switch records: {reported['switches']}")
    # A sample of each; a second one if the interpreter's list of threads came later than the
    # kernel's.
    times = collections.Counter(row["tid"] for row in samples)
    assert len(times) == THREADS and max(times.values()) <= 2, times
    # In all passes of the run.
    assert reported["after"]["passes"] - reported["before"]["passes"] > 10, reported


def test_without_them_no_stack_is_read_again(bench: Bench) -> None:
    reported, samples = run(bench, "off")
    assert reported["switches"].startswith("off"), reported
    read = collections.Counter(row["tid"] for row in samples if not row["is_reused"])
    assert max(read.values()) <= 2, read
    again = [row for row in samples if row["is_reused"]]
    assert again and all(row["cpu_ns"] == 0 and row["slices"] == 0 for row in again), again[:3]


def test_without_switch_records_an_unchanged_clock_replaces_a_sample(bench: Bench) -> None:
    reported, samples = run(bench, "off", FEW)
    times = collections.Counter(row["tid"] for row in samples)
    # Ten times in the first second, four times in each of the three others; samples would be as
    # many as passes.
    passes = reported["after"]["passes"] - reported["before"]["passes"]
    assert passes > 60, reported
    assert len(times) == FEW and min(times.values()) >= 5 and max(times.values()) <= 40, (passes, times)
