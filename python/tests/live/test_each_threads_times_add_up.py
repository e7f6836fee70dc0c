"""65 threads, of which a pass samples 16 at most: the weights of each thread's stacks add up to its
lifetime and to the CPU time it was charged, both by its own clocks."""

from __future__ import annotations

import bisect
import collections
import gzip
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any, Iterator

import dashcam
import pyarrow
import pytest
from conftest import DASHCAM, PATIENCE_S, Bench

THREADS = 65
# Each thread reads its clocks at every step; between two readings lies one step.
PROGRAM = f"""
    import json, random, threading, time
    import dashcam

    assert dashcam.start(service="threads", slow="10m")
    end, readings = threading.Event(), {{}}
    def reads(own): own.append((time.monotonic_ns(), time.thread_time_ns(), time.monotonic_ns()))
    def computes(random): return sum(i * i for i in range(random.randrange(20_000)))
    def waits(random): time.sleep(random.random() * 0.1)
    def lives(number):
        own = readings[threading.get_native_id()] = []
        randoms = random.Random(number)
        while not end.is_set():
            reads(own)
            randoms.choice([computes, waits])(randoms)
        reads(own)
    threads = [threading.Thread(target=lives, args=(number,)) for number in range({THREADS})]
    starts = []
    for thread in threads:
        starts.append(time.monotonic_ns())
        thread.start()
    time.sleep(8)
    path = dashcam.snap()
    end.set()
    for thread in threads: thread.join()
    switches = dashcam.status()["sources"]["switches"]
    began = {{thread.native_id: start_ns for thread, start_ns in zip(threads, starts)}}
    print(json.dumps(dict(path=str(path), switches=switches, began=began, readings=readings)))
"""


@pytest.fixture(scope="module", params=["on", "off"])
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The program's own measurements, with switch records and without."""
    bench = Bench(tmp_path_factory.mktemp(request.param))
    result = bench.python(PROGRAM, DASHCAM_SWITCHES=request.param)
    assert result.returncode == 0, result.stderr
    made: dict[str, Any] = json.loads(result.stdout)
    if not made["switches"].startswith(request.param):
        pytest.skip(f"switch records: {made['switches']}")
    made["capture"] = Path(bench.folder, made["path"])
    made["readings"] = {int(tid): rows for tid, rows in made["readings"].items()}
    assert len(made["readings"]) == THREADS
    return made


# On a busy machine the sampler may lose its CPU for this long between its two clock reads for a
# sample.
BETWEEN_NS = 10_000_000


def covered(reported: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """Thread -> the interval in which something is known about it: with switch records from the
    first time it left the CPU to the capture's end; without, from its first sample to its last."""
    capture = dashcam.open(reported["capture"])
    known: dict[int, list[int]] = collections.defaultdict(list)
    for name, column in [("samples", "t_ns"), ("switches", "out_ns")]:
        for row in pyarrow.table(capture.tables[name]).to_pylist():
            known[row["tid"]].append(row[column])
    to_ns = capture.summary()["meta"]["to_ns"] if reported["switches"] == "on" else 0
    return {tid: (min(known[tid]), to_ns or max(known[tid])) for tid in reported["readings"]}


def test_the_weights_of_a_thread_add_up_to_its_lifetime(reported: dict[str, Any]) -> None:
    weighs = weighed(reported["capture"])
    least, most = {}, {}
    for tid, (from_ns, to_ns) in covered(reported).items():
        least[tid] = most[tid] = to_ns - from_ns
        if reported["switches"] == "on":
            # Its whole life: from its start, or from its first clock reading.
            least[tid], most[tid] = to_ns - reported["readings"][tid][0][0], to_ns - reported["began"][str(tid)]
        assert 0.99 * least[tid] <= weighs[tid]["wall"] <= 1.01 * most[tid], (tid, least, weighs[tid], most)
    all_ns = sum(weighs[tid]["wall"] for tid in least)
    assert 0.995 * sum(least.values()) <= all_ns <= 1.005 * sum(most.values()), (least, all_ns, most)
    assert sum(most.values()) < 1.1 * sum(least.values())


def test_the_weights_of_a_thread_add_up_to_its_cpu_time(reported: dict[str, Any]) -> None:
    weighs = weighed(reported["capture"])
    sums = [0, 0, 0]
    for tid, (from_ns, to_ns) in covered(reported).items():
        # Between these two instants, by its own clock as read before and after each.
        begin, end = (charged(reported["readings"][tid], t_ns) for t_ns in (from_ns, to_ns))
        least, cpu_ns, most = end[0] - begin[1], weighs[tid]["cpu"], end[1] - begin[0]
        assert least - BETWEEN_NS <= cpu_ns <= most + BETWEEN_NS, (tid, least, cpu_ns, most)
        sums = [sum(pair) for pair in zip(sums, (least, cpu_ns, most))]
    # For all together, within half a percent and the time computed between two readings.
    least, cpu_ns, most = sums
    assert 0.995 * least <= cpu_ns <= 1.005 * most and most - least < 0.05 * most, sums


def charged(readings: list[list[int]], t_ns: int) -> tuple[int, int]:
    """A thread's CPU time by its last reading before an instant, and by the first reading after
    it.
    """
    before = bisect.bisect_right(readings, t_ns, key=lambda row: row[2]) - 1
    after = bisect.bisect_left(readings, t_ns, key=lambda row: row[0])
    return readings[before][1] if before >= 0 else 0, readings[after][1]


def weighed(path: Path) -> dict[int, dict[str, int]]:
    """Thread -> the sum of its stacks' weights, by kind of value; from the export for pprof."""
    made = subprocess.run([DASHCAM, "export", str(path), "--to", "pprof", "-o", "-"], check=True,
                          capture_output=True, timeout=PATIENCE_S)
    message = list(fields(gzip.decompress(made.stdout)))
    texts = [value.decode() for number, value in message if number == 6]
    kinds = [texts[dict(fields(value))[1]] for number, value in message if number == 1]
    sums: dict[int, dict[str, int]] = collections.defaultdict(lambda: dict.fromkeys(kinds, 0))
    for sample in (list(fields(value)) for number, value in message if number == 2):
        values = list(itertools.chain(*(varints(value) for number, value in sample if number == 2)))
        labels = (dict(fields(value)) for number, value in sample if number == 3)
        tid = next(label[3] for label in labels if texts[label[1]] == "thread id")
        for kind, value in zip(kinds, values):
            sums[tid][kind] += value
    return sums


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message that has numbers and bytes only."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at:at + value]
            at += value
        else:
            yield tag >> 3, value


def varints(packed: bytes) -> Iterator[int]:
    """Packed numbers."""
    at = 0
    while at < len(packed):
        value, at = varint(packed, at)
        yield value


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at
