"""A metric over its limit makes a capture that names it; and no cause is invented."""

from __future__ import annotations

import sys

PROGRAM = """
import time
import dashcam
%s
with dashcam.request("GET /"):
    pass
dashcam.gauge("queue.depth", 20, tags={"shop": "a"})
dashcam.flush()
dashcam.gauge("queue.depth", 120, tags={"shop": "a"})
dashcam.flush()
for _ in range(12000):
    if dashcam.status()["captures"]:
        break
    time.sleep(0.005)
"""


def test_a_capture_says_which_metric_was_over_which_limit(bench):
    start = 'dashcam.start(on_metric="queue.depth{shop=*}>100, errors>5/s/10s", post="1ms")'
    result = bench.python(PROGRAM % start)
    assert result.returncode == 0, result.stderr
    [capture] = bench.captures()
    shown = bench.show(capture)
    reason = "metric: queue.depth{shop=a} was 120: queue.depth{shop=*}>100"
    assert shown["meta"]["reason"] == reason
    why = bench.dashcam("why", str(capture))
    assert why.returncode == 1
    lines = why.stdout.splitlines()
    assert lines[0].startswith("Nothing to blame: the only request took ")
    assert lines[1:3] == [f"Saved for: {reason}.", "   queue.depth{shop=a}: 20 to 120 in 2 windows, last 120."]
    names = [metric["name"] for metric in shown["metrics"]]
    assert "dashcam.sampler.budget_used" in names and "dashcam.requests" in names


def test_the_command_takes_rules_and_refuses_what_makes_no_sense(bench):
    program = bench.write("service.py", PROGRAM % "")
    result = bench.dashcam("run", "--on-metric", "queue.depth>100", "--post", "1ms", "--",
                           sys.executable, str(program))
    assert result.returncode == 0, result.stderr
    [capture] = bench.captures()
    assert bench.show(capture)["meta"]["reason"] == "metric: queue.depth{shop=a} was 120: queue.depth>100"
    result = bench.dashcam("run", "--on-metric", "queue.depth", "--", sys.executable, "-c", "0")
    assert result.returncode == 2 and "found \"queue.depth\", wanted a limit like" in result.stderr


def test_rules_change_while_the_process_runs(bench):
    start = """
import os, subprocess
dashcam.start(post="1ms")
done = subprocess.run(["%s", "set", str(os.getpid()), "on_metric=queue.depth>100"])
assert done.returncode == 0
"""
    from conftest import DASHCAM

    result = bench.python(PROGRAM % (start % DASHCAM))
    assert result.returncode == 0, result.stderr
    [capture] = bench.captures()
    assert bench.show(capture)["meta"]["reason"].startswith("metric: queue.depth{shop=a} was 120")
