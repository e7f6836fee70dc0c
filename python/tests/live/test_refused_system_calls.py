"""Under a container's seccomp profile the cause is still named, as likely, and the sources that are
off are listed.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench

PROGRAM = """
    import dashcam, threading, time
    lock = threading.Lock()
    def refresh():
        with lock:
            time.sleep(0.4)
    def rate():
        with lock:
            return 1
    with dashcam.request("GET /price"):
        rate()
    for i in range(3):
        for _ in range(30):
            with dashcam.request("GET /price"):
                time.sleep(0.005)
        holder = threading.Thread(target=refresh)
        holder.start()
        time.sleep(0.02)
        with dashcam.request("GET /price"):
            rate()
        holder.join()
    print(dashcam.snap("end"))
"""
REFUSE = str(Path(__file__).parent.with_name("refuse_calls.py"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has numbers of x86-64")
@pytest.mark.parametrize("calls", [
    "perf_event_open",
    "perf_event_open,process_vm_writev",
    "perf_event_open,process_vm_readv,process_vm_writev,membarrier",
])
def test_the_cause_is_named_and_what_is_off_is_said(bench: Bench, calls: str) -> None:
    program = bench.write("program.py", PROGRAM)
    service = bench.start([sys.executable, REFUSE, calls, DASHCAM, "run", "--slow", "200ms", "--",
                           sys.executable, str(program)])
    out, err = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0, err
    reported = bench.dashcam("why", "--json", out.strip())
    assert reported.returncode == 0, reported.stderr
    verdict = json.loads(reported.stdout)
    first = verdict["causes"][0]
    assert first["cause"] == "lock-wait" and first["where"]["function"] == "rate", first
    assert first["confidence"] != "confirmed"
    assert "times are estimates: source switches was off" in first["missing"]
    off = verdict["capture"]["sources"]["switches"]
    assert off.startswith("off: perf_event_open refused") and "seccomp" in off
