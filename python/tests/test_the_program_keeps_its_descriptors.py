"""The open files, and the numbers that the program gets, are the same with and without dashcam. If
the kernel refuses dashcam a table of its own, it takes an eighth of the limit at most."""

from __future__ import annotations

import errno
import json
import platform
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import DASHCAM, Bench, wait_for

# Opens files until there are no more; recorded, once all threads have been sampled.
PROGRAM = """
    import json, os, sys, threading, time
    threads, recorded = int(sys.argv[1]), sys.argv[2] == "recorded"
    go, stand = threading.Event(), threading.Barrier(int(sys.argv[1]) + 1)
    def wait():
        stand.wait()
        go.wait()
    all_threads = [threading.Thread(target=wait) for _ in range(threads)]
    for thread in all_threads:
        thread.start()
    stand.wait()
    if recorded:
        import dashcam
        while dashcam.status()["sampler"]["samples"] < threads:
            time.sleep(0.01)
    listed = sorted(map(int, os.listdir("/proc/self/fd")))
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        refused = error.errno
    for fd in opened:
        os.close(fd)
    status = dashcam.status() if recorded else {}
    go.set()
    for thread in all_threads:
        thread.join()
    print(json.dumps({"listed": listed, "opened": opened, "refused": refused,
                      "descriptors": status.get("descriptors"),
                      "source": status.get("sources", {}).get("own_descriptors")}))
"""
LIMIT = """
    import os, resource, sys
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.execvp(sys.argv[2], sys.argv[2:])
"""
REFUSE = str(Path(__file__).with_name("refuse_calls.py"))
CASES = pytest.mark.parametrize(("limit", "threads"), [(256, 60), (1024, 200), (4096, 60)])


def both(bench: Bench, limit: int, threads: int, under: list[str], **env: str) -> list[dict[str, Any]]:
    """The program's output, bare and recorded."""
    limited = [sys.executable, str(bench.write("limit.py", LIMIT)), str(limit)]
    program = [sys.executable, str(bench.write("program.py", PROGRAM)), str(threads)]
    said = []
    # Threads without a request are sampled a few at a time, as the budget allows.
    run = [DASHCAM, "run", "--budget-percent", "100", "--"]
    for words in ([*program, "bare"], [*run, *program, "recorded"]):
        done = bench.run([*under, *limited, *words], **env)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        said.append(json.loads(done.stdout))
    return said


def has_own_table(recorded: dict[str, Any]) -> bool:
    if recorded["source"] != "on":
        assert recorded["source"].startswith("off: ")
    return bool(recorded["source"] == "on")


@CASES
def test_all_numbers_are_the_same(bench: Bench, limit: int, threads: int) -> None:
    bare, recorded = both(bench, limit, threads, [])
    if not has_own_table(recorded):
        pytest.skip("this kernel or sandbox allows no table of our own: " + recorded["source"])
    assert recorded["listed"] == bare["listed"]
    assert recorded["opened"] == bare["opened"] and recorded["refused"] == bare["refused"]
    assert recorded["descriptors"]["in_the_programs_table"] == 0
    assert recorded["descriptors"]["in_our_own_table"] > 0


# Takes every number that there is, so that nothing of ours could be opened among them, not for a
# moment; then everything of ours has to work.
FULL = """
    import json, os, resource, socket, subprocess, sys, threading, time
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    os.environ["DASHCAM_STATSD"] = "udp://127.0.0.1:%d" % receiver.getsockname()[1]
    import dashcam
    settings = {"openmetrics": "127.0.0.1:0", "hook": sys.argv[1], "slow": "1h"}
    dashcam.start(**settings)
    dashcam.snap("warm")
    dashcam.stop()   # what is imported when it is first used is there now
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        print(error.errno)
    dashcam.start(**settings)
    if dashcam.status()["sources"]["own_descriptors"] != "on":
        print("off")
        sys.exit()
    stream = dashcam.stream("stream.dashcam", kinds="request,event")
    with dashcam.request("GET /"):
        dashcam.event("inside")
    dashcam.count("orders", 3)
    stream.close()
    path = dashcam.snap("full")
    while not dashcam.flush(): pass  # it gives up after two seconds
    while b"orders:3|c" not in receiver.recv(65536):
        pass
    print("counted")
    while not dashcam.status()["openmetrics"]["listening"]:
        time.sleep(0.001)
    print(dashcam.status()["openmetrics"]["listening"], flush=True)
    sys.stdin.readline()
    assert dashcam.status()["descriptors"]["in_the_programs_table"] == 0, dashcam.status()
    dashcam.stop()
    print(path)
"""


def test_everything_works_while_the_program_has_none_left(bench: Bench) -> None:
    hook = bench.write("hook.sh", "#!/bin/sh\necho \"$1\" > hooked.new\nmv hooked.new hooked\n")
    hook.chmod(0o755)
    service = bench.start([sys.executable, str(bench.write("full.py", FULL)), str(hook)], stdin=True)
    assert service.stdout is not None and service.stdin is not None
    said = service.stdout.readline
    assert said() == f"{errno.EMFILE}\n", bench.stop(service)
    first = said()
    if first == "off\n":
        pytest.skip("this kernel or sandbox allows no table of our own")
    assert first == "counted\n", bench.stop(service)
    with urllib.request.urlopen(f"http://{said().strip()}/metrics", timeout=60) as answer:
        assert b"orders_total 3" in answer.read()
    shown = bench.dashcam("status", str(service.pid))
    assert shown.returncode == 0, shown.stderr
    out, err = service.communicate("go on\n", timeout=90)
    assert service.returncode == 0, err
    path = out.splitlines()[-1] + "\n"
    hooked = bench.folder / "hooked"
    wait_for("the hook", lambda: hooked.exists() and hooked.read_text() == path)
    assert bench.show(bench.folder / "stream.dashcam")["requests"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has numbers of x86-64")
@CASES
@pytest.mark.parametrize("refused", ["pidfd_getfd", "close_range", "pidfd_getfd,perf_event_open"])
def test_elsewhere_an_eighth_is_the_most(bench: Bench, limit: int, threads: int, refused: str) -> None:
    bare, recorded = both(bench, limit, threads, [sys.executable, REFUSE, refused])
    assert recorded["source"].startswith("off: ")
    assert len(recorded["listed"]) <= len(bare["listed"]) + limit // 8
    assert len(recorded["opened"]) >= len(bare["opened"]) - limit // 8
    ours = set(recorded["listed"]) - set(bare["listed"])
    # A file that is open for a moment has the number that was free.
    kept = sorted(ours)[2:] if len(ours) > 2 else []
    assert all(fd >= min(1024, limit - limit // 8) for fd in kept), ours
