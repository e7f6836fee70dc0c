"""The CPU time that the sampler reports is what the kernel charged it, also if there is far more to
sample than its budget pays for. It is in `status`, in captures and in a metric."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dashcam
import pyarrow
import pytest
from conftest import Bench, wait_for

# 64 threads that never pause, and one that waits for the end.
PROGRAM = """
    import threading
    import dashcam
    def busy():
        while True: sum(range(200))
    dashcam.start(service="busy")
    for _ in range(64): threading.Thread(target=busy, daemon=True).start()
    threading.Event().wait()
"""


def status(bench: Bench, pid: int) -> dict[str, Any]:
    """The report of a process's recorder; none of the process's own threads has to run."""
    said = bench.dashcam("status", str(pid), "--json")
    assert said.returncode == 0, said.stderr
    reported: dict[str, Any] = json.loads(said.stdout)
    return reported


def start(bench: Bench) -> int:
    """Starts the program; returns its process once passes are as narrow as its budget wants."""
    program = bench.write("program.py", PROGRAM)
    process = bench.start([sys.executable, "-W", "error", str(program)])
    wait_for("a recorder", lambda: bench.dashcam("status", str(process.pid)).returncode == 0)
    wait_for("some passes", lambda: status(bench, process.pid)["sampler"]["passes"] > 100)
    return process.pid


def charged_ns(pid: int) -> int:
    """The CPU time of the sampler's thread, by the kernel."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "dashcam-sampler\n":
            return int((task / "schedstat").read_text().split()[0])
    raise AssertionError("no thread dashcam-sampler")


@pytest.mark.seconds(600)
def test_the_kernel_charges_what_status_reports(bench: Bench) -> None:
    pid = start(bench)
    # Twenty seconds. At both ends the kernel is read before and after the report: the reported time
    # lies between.
    first_from, first, first_to = charged_ns(pid), status(bench, pid)["sampler"], charged_ns(pid)
    time.sleep(20)
    last_from, last, last_to = charged_ns(pid), status(bench, pid)["sampler"], charged_ns(pid)
    reported = last["cpu_ns"] - first["cpu_ns"]
    # A pass is reported when it is done; the kernel charges a running one at its next tick, or its
    # end.
    pass_ns = last["longest_pass_ns"]
    least, most = last_from - first_to - pass_ns, last_to - first_from + pass_ns
    assert least <= reported <= most, (least, reported, most)
    assert most - least < 0.2 * reported, "too coarse to say anything"


def test_status_a_capture_and_a_metric_report_the_used_budget(bench: Bench) -> None:
    pid = start(bench)
    before = status(bench, pid)["sampler"]
    said = bench.dashcam("snap", str(pid))
    assert said.returncode == 0, said.stderr
    after = status(bench, pid)["sampler"]
    capture = dashcam.open(said.stdout.strip())
    meta = capture.summary()["meta"]
    inside = meta["sampler"]
    assert before["cpu_ns"] <= inside["cpu_ns"] <= after["cpu_ns"], (before, inside, after)
    # Of a budget of 1 %; the start of the process is the most expensive part of its life. The part is
    # that of all time since then.
    assert meta["settings"]["budget_percent"] == 1
    percent = inside["cpu_ns"] / (meta["to_ns"] - meta["start_ns"]) * 100
    for reported in (before, inside, after):
        assert reported["budget_used"] == reported["cpu_percent"], reported
        assert 0.1 < reported["budget_used"] < 10, reported
    assert inside["budget_used"] == pytest.approx(percent, rel=0.05), (inside, meta)
    # The windows add up to the same.
    rows = pyarrow.table(capture.tables["metrics"]).to_pylist()
    used = [row for row in rows if row["name"] == "dashcam.sampler.budget_used"]
    seconds = [row["value"] for row in rows if row["name"] == "dashcam.sampler.cpu_seconds"]
    spent = sum(row["value"] * 0.01 * (row["to_ns"] - row["from_ns"]) for row in used)
    assert used and spent == pytest.approx(sum(seconds) * 1e9, rel=0.02), (used, seconds)
    assert before["cpu_ns"] * 0.98 <= sum(seconds) * 1e9 <= after["cpu_ns"] * 1.02, (before, seconds, after)
