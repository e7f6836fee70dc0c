"""Forks while the kernel reports the wakers of slow requests' threads (source `wakers`: root,
tracefs).
"""

from __future__ import annotations

import json

import pytest
from conftest import Bench

PROGRAM = """
    import os, sys, threading, time, warnings, dashcam
    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12+: fork of a threaded process
    dashcam.start(service="family", slow="100ms", out="captures", cooldown="1h")
    lock, stop = threading.Lock(), threading.Event()

    def hold():
        while not stop.is_set():
            with lock: time.sleep(0.2)
            time.sleep(0.02)

    def ask():
        while not stop.is_set():
            with dashcam.request("GET /"):
                with lock: pass
            time.sleep(0.01)

    threads = [threading.Thread(target=work) for work in (hold, ask, ask, ask)]
    for thread in threads: thread.start()
    time.sleep(1)
    print(dashcam.status()["sources"].get("wakers"), flush=True)
    for number in range(150):
        pid = os.fork()
        if pid == 0:
            own = threading.Lock()
            with dashcam.request("child"):
                with own: time.sleep(0.12 if number % 10 == 0 else 0.001)
            os._exit(7)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7, (number, status)
    print(dashcam.status()["sources"].get("wakers"), flush=True)
    path = dashcam.snap("after the forks")
    stop.set()
    for thread in threads: thread.join()
    print(path)
"""


def test_children_end_normally_and_the_parent_is_still_recorded(bench: Bench) -> None:
    said = bench.python(PROGRAM)
    assert said.returncode == 0, said.stderr
    before, after, path = said.stdout.splitlines()
    if before != "on":
        pytest.skip(f"who woke whom: {before}")
    assert after == "on"
    reported = bench.dashcam("why", "--json", path)
    first = json.loads(reported.stdout)["causes"][0]
    assert first["cause"] == "lock-wait" and first["culprit"]["function"] == "hold", first
