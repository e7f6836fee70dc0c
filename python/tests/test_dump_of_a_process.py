"""`dashcam dump` shows what a process does now, recorded or not, and never a stack that was none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, wait_for

# Any process of the same user may trace it, where Yama would allow descendants only.
HEAD = """
    import asyncio, ctypes, json, sys, threading, time
    ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
    def begins(function, *arguments):
        begun = threading.Event()
        def runs():
            begun.tid = threading.get_native_id()
            begun.set()
            function(*arguments)
        threading.Thread(target=runs, daemon=True).start()
        begun.wait()
        return begun.tid
"""
LOCKS = """
    lock, recursive, never = threading.Lock(), threading.RLock(), threading.Lock()
    never.acquire()
    held = threading.Semaphore(0)
    def holder(lock):
        with lock:
            held.release()
            never.acquire()  # holder's line
    def waiter(lock):
        with lock:  # waiter's line
            pass
    tids = {}
    for name, lock in (("lock", lock), ("recursive", recursive)):
        tids[name] = [begins(holder, lock)]
        held.acquire()
        tids[name].append(begins(waiter, lock))
    async def fetch(lock):
        async with lock:
            pass
    async def keep(lock):
        async with lock:
            await asyncio.sleep(1000)  # keep's line
    async def main():
        lock = asyncio.Lock()
        keeps = asyncio.ensure_future(keep(lock))
        await asyncio.sleep(0)
        fetches = asyncio.ensure_future(fetch(lock))
        for task, name in ((keeps, "keep"), (fetches, "fetch")):
            task.set_name(name)
        await asyncio.sleep(0)
        print(json.dumps(tids), flush=True)
        await asyncio.gather(keeps, fetches)
    asyncio.run(main())
"""


class Program:
    """A program that runs until the test ends, and what it printed first."""

    def __init__(self, bench: Bench, code: str, **env: str) -> None:
        self.bench = bench
        self.path = bench.write("dumped.py", textwrap.dedent(HEAD) + textwrap.dedent(code))
        self.process = bench.start([sys.executable, str(self.path)], **env)
        assert self.process.stdout is not None
        self.said = json.loads(self.process.stdout.readline())
        self.pid = str(self.process.pid)

    def line(self, mark: str) -> int:
        """The line with this mark."""
        lines = self.path.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if mark in line)

    def dump(self, **env: str) -> dict[str, Any]:
        result = self.bench.dashcam("dump", self.pid, "--json", **env)
        assert (result.returncode, result.stderr) == (0, ""), result
        found: dict[str, Any] = json.loads(result.stdout)
        assert found["pid"] == self.process.pid
        return found


def thread(dump: dict[str, Any], tid: int) -> dict[str, Any]:
    return next(one for one in dump["threads"] if one["tid"] == tid)


def place(frame: dict[str, Any]) -> tuple[str, int]:
    return frame["function"].rpartition(".")[2], frame["line"]


def waits(program: Program, tids: list[int], **env: str) -> dict[str, Any]:
    """A dump in which these threads wait."""
    def dump() -> dict[str, Any] | None:
        found = program.dump(**env)
        return found if all("wait" in thread(found, tid) for tid in tids) else None
    found: dict[str, Any] = wait_for("waiting threads", dump)
    return found


@pytest.mark.parametrize("recorded", [False, True])
def test_locks_and_their_holders_in_threads_and_tasks(bench: Bench, recorded: bool) -> None:
    start = "import dashcam; dashcam.start(service='dumped', memory='8MiB')\n"
    runtime = bench.folder / "run"
    runtime.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(runtime)}
    program = Program(bench, (textwrap.dedent(start) if recorded else "") + textwrap.dedent(LOCKS), **env)
    dump = waits(program, [*program.said["lock"], *program.said["recursive"]], **env)
    assert dump["read"] == ("inside" if recorded else "outside")
    assert (dump.get("service"), "requests" in dump) == (("dumped", True) if recorded else (None, False))
    assert dump["runtime"].startswith(f"cpython {sys.version_info[0]}.{sys.version_info[1]}")
    for name, is_recursive in (("lock", False), ("recursive", True)):
        holder, waiter = (thread(dump, tid) for tid in program.said[name])
        assert place(holder["stack"][0]) == ("holder", program.line("holder's line")), holder
        assert place(waiter["stack"][0]) == ("waiter", program.line("waiter's line")), waiter
        [held] = holder["holds"]
        assert held["recursive"] is is_recursive and place(held["at"])[0] == "holder", held
        assert waiter["waits_for"] == {"kind": "lock", "object": held["lock"], "holder": holder["tid"]}, waiter
        assert waiter["holds"] == [] and waiter["settled"] and not waiter["truncated"]
        # The program's name; seen from outside the kernel's, which CPython sets from 3.14 on.
        has_own_name = recorded or sys.version_info >= (3, 14)
        assert waiter["name"].startswith("Thread-") == has_own_name, waiter
    tasks = {task["name"]: task for task in dump["tasks"]}
    [keep], [fetch] = tasks["keep"]["awaits"], tasks["fetch"]["awaits"]
    assert (keep["awaits"], place(keep["stack"][-1])) == ("sleep", ("keep", program.line("keep's line"))), keep
    assert (fetch["awaits"], fetch["holder"]) == ("lock", tasks["keep"]["task"]), fetch
    text = bench.dashcam("dump", program.pid, **env).stdout
    holder_tid, waiter_tid = program.said["lock"]
    assert f"held by thread {holder_tid}" in text and f"thread {waiter_tid} " in text, text
    assert f"awaits lock {fetch['object']}, held by task {fetch['holder']} keep" in text, text


def test_open_requests_of_a_recorded_process_have_an_age(bench: Bench) -> None:
    runtime = bench.folder / "run"
    runtime.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(runtime)}
    program = Program(bench, """
        import dashcam
        dashcam.start(service="dumped", memory="8MiB")
        with dashcam.request("GET /orders"):
            print(json.dumps(threading.get_native_id()), flush=True)
            time.sleep(1000)
    """, **env)
    before = program.dump(**env)["requests"]
    after = program.dump(**env)["requests"]
    outer = [next(r for r in requests if r["name"] == "GET /orders") for requests in (before, after)]
    assert [r["tid"] for r in outer] == [program.said] * 2 and outer[0]["id"] == outer[1]["id"]
    assert 0 < outer[0]["age_us"] < outer[1]["age_us"], "it grows"
    text = bench.dashcam("dump", program.pid, **env).stdout
    assert f"s  GET /orders  thread {program.said}\n" in text, text


MOVES = """
    def c(n): return n * n
    def b(n): return c(n) + c(n + 1)
    def a(n): return b(n) - c(n)
    def spin():
        while True: a(7)
    tid = begins(spin)
    print(json.dumps(tid), flush=True)
    time.sleep(1000)
"""
CALLERS = {"a": {"spin"}, "b": {"a"}, "c": {"a", "b"}, "spin": {"runs"}}


def test_a_stack_that_moves_is_one_that_was_or_torn(bench: Bench) -> None:
    program = Program(bench, MOVES)
    seen = 0
    for _ in range(12):
        spinning = thread(program.dump(), program.said)
        if "torn" in spinning:
            assert spinning["stack"] == []
            continue
        names = [place(frame)[0] for frame in spinning["stack"]]
        own = names[:names.index("runs") + 1]
        seen += 1
        assert all(caller in CALLERS[called] for called, caller in zip(own, own[1:])), names
        assert spinning["settled"] and spinning["holds"] == []
    assert seen, "torn each time"


def test_a_stopped_process_is_read_and_stays_stopped(bench: Bench) -> None:
    program = Program(bench, MOVES)
    os.kill(program.process.pid, signal.SIGSTOP)
    os.waitpid(program.process.pid, os.WUNTRACED)
    one, two = program.dump(), program.dump()
    spinning = thread(one, program.said)
    assert spinning["wait"] == "stopped" and spinning["settled"] and "torn" not in spinning, spinning
    assert thread(two, program.said)["stack"] == spinning["stack"]
    with open(f"/proc/{program.pid}/stat", encoding="ascii") as stat:
        assert stat.read().rpartition(")")[2].split()[0] == "T"


def test_what_cannot_be_read_is_refused_with_a_remedy(bench: Bench) -> None:
    other = bench.start(["sleep", "1000"])
    result = bench.dashcam("dump", str(other.pid))
    assert (result.returncode, result.stdout) == (2, ""), result
    assert "program: found no CPython in it (no symbol _PyRuntime), wanted CPython 3.9 to 3.15" in result.stderr
    nobody = bench.dashcam("dump", "4194305")
    assert nobody.returncode == 1 and "process: found none of this number" in nobody.stderr, nobody


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_another_users_process_is_refused(bench: Bench) -> None:
    program = Program(bench, MOVES)
    nobody = 65534
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        command = shutil.copy(DASHCAM, folder)
        result = subprocess.run([command, "dump", program.pid], user=nobody, group=nobody, extra_groups=[],
                                cwd="/", capture_output=True, text=True, timeout=PATIENCE_S)
    assert result.returncode == 2 and f"user of the process: found 0, wanted {nobody}" in result.stderr, result
