"""A child forked by one of many busy threads, at any moment of the sampling, is recorded like any
program: its capture shows what it does, and nothing of the threads it does not have."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dashcam
import pyarrow
from conftest import Bench

FORKS = 12

PROGRAM = """
    import os, random, sys, threading, time, warnings
    import dashcam

    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12+: fork of a threaded process
    sys.setswitchinterval(0.0005)
    forks = int(sys.argv[1])

    # Stacks that are another at every sample.
    def dives(depth): return dives(depth - 1) if depth else computes()
    def computes(): return sum(i * i for i in range(50))
    def is_busy():
        while not enough.is_set(): dives(random.randrange(200))

    def only_the_child_runs(): return sum(i * i for i in range(2000))
    def is_a_child():
        with dashcam.request("child"):
            while dashcam.status()["sampler"]["samples"] < 20:
                for _ in range(100): only_the_child_runs()
        os.write(1, f"{os.getpid()} {dashcam.snap()}\\n".encode())
        os._exit(7)
    def forks_children():
        for _ in range(forks):
            # The sampler is in the midst of something.
            passes = dashcam.status()["sampler"]["passes"]
            while dashcam.status()["sampler"]["passes"] < passes + 10: dives(100)
            pid = os.fork()
            if pid == 0: is_a_child()
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 7, status
        enough.set()

    enough = threading.Event()
    dashcam.start(slow="10m", rate_hz=1000, budget_percent=100)
    threads = [threading.Thread(target=is_busy) for _ in range(7)]
    threads.append(threading.Thread(target=forks_children))
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert dashcam.status()["sampler"]["samples"] > 200
"""


def test_the_childs_capture_names_only_the_childs_code(bench: Bench) -> None:
    program = bench.write("program.py", PROGRAM)
    result = bench.run([sys.executable, "-W", "error", str(program), str(FORKS)])
    assert result.returncode == 0, result
    reported = [line.split() for line in result.stdout.splitlines()]
    assert len(reported) == FORKS and str(os.getpid()) not in dict(reported), reported
    for pid, path in reported:
        capture = dashcam.open(Path(bench.folder, path))
        tables = {name: pyarrow.table(capture.tables[name]).to_pylist() for name in ("samples", "frames")}
        stacks: dict[int, set[str]] = {}
        for frame in tables["frames"]:
            stacks.setdefault(frame["stack_id"], set()).add(frame["function"])
        # Beside these there may be samples of the recorder's threads.
        samples = [stacks.get(row["stack_id"], set()) for row in tables["samples"] if row["tid"] == int(pid)]
        own = sum("only_the_child_runs" in sample for sample in samples)
        assert own >= 5 and all("is_a_child" in sample for sample in samples if sample), (own, samples)
        strange = [stack for stack in stacks.values() if stack & {"is_busy", "dives", "computes"}]
        assert not strange, strange[:3]
        assert capture.summary()["meta"]["pid"] == int(pid)
