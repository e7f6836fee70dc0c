"""kill -9, fork, exit: what becomes of the black box."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, wait_for

def boxes_of(bench: Bench, pid: int) -> list[Path]:
    """Black boxes of a process."""
    return list(bench.boxes.glob(f"*-{pid}-*.box"))


def test_a_killed_process_leaves_a_box_that_recover_turns_into_a_capture(bench: Bench) -> None:
    bench.write("program.py", """
        import time, dashcam
        with dashcam.request("last words"):
            dashcam.event("here")
            while dashcam.status()["sampler"]["passes"] < 2: time.sleep(0.01)
            print("ready", flush=True)
            time.sleep(60)
    """)
    service = bench.start([DASHCAM, "run", "--service", "doomed", "--", sys.executable, "program.py"])
    assert service.stdout is not None and service.stdout.readline() == "ready\n"
    service.send_signal(signal.SIGKILL)
    service.wait(PATIENCE_S)
    (box,) = boxes_of(bench, service.pid)
    result = bench.dashcam("recover", str(box), "-o", "found.dashcam")
    box.unlink()
    assert result.returncode == 0, result.stderr
    shown = bench.show("found.dashcam")
    assert shown["open_requests"] == 1 and shown["counts"]["events"] == 1
    assert shown["meta"]["service"] == "doomed" and shown["meta"]["sources"]["stacks"] == "on"


def test_a_process_that_is_killed_while_it_saves_leaves_whole_captures_only(bench: Bench) -> None:
    try:
        os.close(os.open(bench.folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("no files without a name on this file system")
    bench.write("program.py", """
        import dashcam
        dashcam.start(out="out", memory="16MiB", at_exit="never")
        for number in range(400_000): dashcam.event("filler", number=number)
        print("ready", flush=True)
        while True: dashcam.snap("again")
    """)
    for number in range(8):
        service = bench.start([sys.executable, "program.py"])
        assert service.stdout is not None and service.stdout.readline() == "ready\n"
        wait_for("a first capture", lambda: any((bench.folder / "out").glob("*.dashcam")))
        time.sleep(0.05 + 0.013 * number)
        service.send_signal(signal.SIGKILL)
        service.wait(PATIENCE_S)
        for box in boxes_of(bench, service.pid):
            box.unlink()
    names = [path.name for path in (bench.folder / "out").iterdir() if path.suffix != ".log"]
    assert names and all(name.endswith(".dashcam") and name[0] != "." for name in names), names


def test_a_process_that_ends_in_order_removes_its_box(bench: Bench) -> None:
    result = bench.python("import os, dashcam; dashcam.start(); print(os.getpid())")
    assert boxes_of(bench, int(result.stdout)) == []


def test_a_forked_child_records_into_a_box_of_its_own(bench: Bench) -> None:
    result = bench.python("""
        import os, sys, warnings, dashcam
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12+: fork of a threaded process
        dashcam.start(service="family")
        with dashcam.request("parent only"): pass
        for round in range(20):
            pid = os.fork()
            if pid == 0:
                assert dashcam.status()["on"]
                with dashcam.request("child only"): pass
                if round == 19:
                    grandchild = os.fork()
                    if grandchild == 0:
                        with dashcam.request("grandchild only"): pass
                        print("grandchild", dashcam.snap(), flush=True)
                        os._exit(0)
                    os.waitpid(grandchild, 0)
                    print("child", dashcam.snap(), flush=True)
                from dashcam import _native
                _native.before_exit()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        print("parent", dashcam.snap(), flush=True)
    """)
    assert result.returncode == 0, result.stderr
    paths = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    for kind, path in paths.items():
        names = [r["name"] for r in bench.show(path)["requests"]]
        assert names == [f"{kind} only"], (kind, names)


def test_a_child_of_a_raw_fork_writes_nothing_into_its_parents_box(
    bench: Bench,
) -> None:
    result = bench.python("""
        import ctypes, os, warnings, dashcam
        dashcam.start()
        libc = ctypes.PyDLL(None)
        for _ in range(50):
            pid = libc.fork()
            if pid == 0:
                dashcam.event("from the child")
                os._exit(0)
            os.waitpid(pid, 0)
        dashcam.event("from the parent")
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    assert bench.show(result.stdout.strip().splitlines()[-1])["counts"]["events"] == 1


def test_boxes_of_dead_processes_do_not_pile_up(bench: Bench) -> None:
    for _ in range(5):
        bench.python("import os, dashcam; dashcam.start(memory='1MiB', service='piled'); os._exit(0)")
    assert bench.python("import dashcam; dashcam.start(memory='1MiB')").returncode == 0
    assert len(list(bench.boxes.glob("piled-*.box"))) == 2


def test_forks_while_other_threads_record_deadlock_nobody_and_lose_nothing(bench: Bench) -> None:
    result = bench.python("""
        import os, threading, time, warnings, dashcam
        warnings.simplefilter("ignore", DeprecationWarning)
        dashcam.start(service="storm", memory="4MiB", switches=False)
        stop = threading.Event()
        done = [0] * 4
        def work(i):
            while not stop.is_set():
                with dashcam.request("busy"), dashcam.span("s"):
                    dashcam.event("e")
                done[i] += 1
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads: thread.start()
        # Each waits for the GIL again and again, behind four threads that never rest.
        for _ in range(int(os.environ.get("DASHCAM_FORKS", 20))):
            pid = os.fork()
            if pid == 0:
                with dashcam.request("child"): pass
                from dashcam import _native
                _native.before_exit()
                os._exit(0 if dashcam.status()["on"] is False else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        before = sum(done)
        with dashcam.request("after"): pass
        # It is there, however late it gets a CPU.
        while dashcam.status()["sampler"]["passes"] == 0: time.sleep(0.01)
        state = dashcam.status()
        assert state["on"] and state["open_requests"] == 0, state
        print(before, dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    _, path = result.stdout.split(" ", 1)
    shown = bench.show(path.strip())
    names = {r["name"] for r in shown["requests"]}
    assert names == {"busy", "after"} and shown["damage"] == []


def test_threads_that_come_and_go_are_all_accounted_for(bench: Bench) -> None:
    result = bench.python("""
        import threading, dashcam
        dashcam.start(memory="4MiB", switches=False, stacks=False)
        def short():
            for _ in range(3): dashcam.event("e")
        for _ in range(3000):
            thread = threading.Thread(target=short)
            thread.start()
            thread.join()
        print(dashcam.snap())
    """)
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert shown["counts"]["events"] == 9000, "3 events a thread take room for 3 events"
    assert not any(t["missing_between"] for t in shown["threads"])


def test_slow_requests_that_fell_into_a_cooldown_are_in_a_capture_made_at_exit(bench: Bench) -> None:
    result = bench.python("""
        import time, dashcam
        dashcam.start(service="late", slow="50ms", post="1ms", cooldown="1h")
        def slow(name):
            with dashcam.request(name): time.sleep(0.1)
        slow("first")
        while not dashcam.status()["captures"]: time.sleep(0.01)
        slow("second")
        while dashcam.status()["losses"]["firings_suppressed"] == 0: time.sleep(0.01)
    """)
    assert result.returncode == 0, result.stderr
    first, last = bench.captures()
    assert bench.show(last)["meta"]["reason"] == "exit: 1 slow request since the last capture"
    assert [r["name"] for r in bench.show(last)["requests"]] == ["first", "second"]


def test_a_request_that_still_runs_bears_its_present_name(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        from dashcam import _native
        dashcam.start()
        request = _native.request_begin("GET /price/77")
        _native.request_rename(request, "GET /price/<sku>")
        print(dashcam.snap())
    """)
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert [r["name"] for r in shown["requests"]] == ["GET /price/<sku>"]
