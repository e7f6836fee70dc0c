"""A process that was stopped is reported as such, also if its sampler slept because no thread
worked, and a request that began when it continued woke the sampler."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import dashcam
import pyarrow
import pytest
from conftest import Bench

STOPS = 8
STOPPED_S = 0.4
PROGRAM = """
    import json, os, time
    import dashcam

    dashcam.start(slow="10m")
    print("ready", flush=True)
    while not os.path.exists("enough"):
        with dashcam.request("tick"):
            pass
        time.sleep(0.3)
    print(json.dumps(str(dashcam.snap())), flush=True)
"""


@pytest.mark.parametrize("switches", ["on", "off"])
def test_each_stop_is_recorded(bench: Bench, switches: str) -> None:
    path = bench.write("program.py", PROGRAM)
    process = bench.start([sys.executable, str(path)], DASHCAM_SWITCHES=switches)
    assert process.stdout and process.stdout.readline() == "ready\n"
    for _ in range(STOPS):
        # Long enough for the sampler to fall asleep, and for a sleep of the program to end while it
        # is stopped.
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        process.send_signal(signal.SIGCONT)
    bench.write("enough", "")
    reported = process.stdout.readline()
    capture = Path(bench.folder, json.loads(reported))
    vitals = pyarrow.table(dashcam.open(capture).tables["vitals"]).to_pylist()
    # Each is recorded twice. A busy machine may add further gaps.
    gaps = {row["t_ns"]: row["value"] for row in vitals if row["name"] == "recorder_gap_ns"}
    long = [ns for ns in gaps.values() if ns > STOPPED_S * 0.5e9]
    assert len(long) >= STOPS, gaps
