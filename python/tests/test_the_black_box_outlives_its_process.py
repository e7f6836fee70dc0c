"""kill -9, fork, exit: what becomes of the black box."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from conftest import DASHCAM, Bench

BOXES = Path(f"/dev/shm/dashcam-{os.getuid()}")


def boxes_of(pid: int) -> list[Path]:
    """Black boxes of a process."""
    return list(BOXES.glob(f"*-{pid}-*.box"))


def test_a_killed_process_leaves_a_box_that_recover_turns_into_a_capture(bench: Bench) -> None:
    bench.write("program.py", """
        import time, dashcam
        with dashcam.request("last words"):
            dashcam.event("here")
            print("ready", flush=True)
            time.sleep(60)
    """)
    service = bench.start([DASHCAM, "run", "--service", "doomed", "--", sys.executable, "program.py"])
    assert service.stdout is not None and service.stdout.readline() == "ready\n"
    service.send_signal(signal.SIGKILL)
    service.wait(10)
    (box,) = boxes_of(service.pid)
    result = bench.dashcam("recover", str(box), "-o", "found.dashcam")
    box.unlink()
    assert result.returncode == 0, result.stderr
    shown = bench.show("found.dashcam")
    assert shown["open_requests"] == 1 and shown["counts"]["events"] == 1
    assert shown["meta"]["service"] == "doomed" and shown["meta"]["sources"]["stacks"] == "on"


def test_a_process_that_ends_in_order_removes_its_box(bench: Bench) -> None:
    result = bench.python("import os, dashcam; dashcam.start(); print(os.getpid())")
    assert boxes_of(int(result.stdout)) == []


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
    for who, path in paths.items():
        names = [r["name"] for r in bench.show(path)["requests"]]
        assert names == [f"{who} only"], (who, names)


def test_a_child_that_forks_without_telling_python_writes_nothing_into_its_parents_box(
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
        bench.python("import os, dashcam; dashcam.start(memory='1MiB'); os._exit(0)")
    bench.python("import dashcam; dashcam.start(memory='1MiB')")
    dead = [b for b in BOXES.glob("*.box") if not Path(f"/proc/{b.name.split('-')[-2]}").exists()]
    assert len(dead) <= 2, dead
