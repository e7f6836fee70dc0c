"""If the interpreter's memory is refused (an unknown version), stacks come from the interpreter
itself: few, rarely, and the source says so. Nothing of it remains when the interpreter ends, or in
a forked child that records nothing."""

from __future__ import annotations

from conftest import Bench

# A version that is in no table: the reader decides by it.
UNKNOWN = """
import sys
sys.hexversion = 0x03FF00F0
import _thread, os, pathlib, threading, time
import dashcam

def until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)

def source(): return dashcam.status()["sources"].get("stacks", "")
def is_on(): return source().startswith("on; under the GIL, up to 10 times a second, since cannot read")
"""


def program(code: str) -> str:
    """Code after `UNKNOWN`; both are indented like this file."""
    import textwrap
    return UNKNOWN + textwrap.dedent(code)


def test_a_slow_request_is_named_and_the_source_says_how(bench: Bench) -> None:
    result = bench.python(program("""
        import pyarrow
        dashcam.start(slow="500ms", out="captures")
        until(is_on, source())
        assert "Python version is 0x03ff00f0, wanted 3.9 to 3.15" in source(), source()
        def naps(seconds): time.sleep(seconds)
        def handle(seconds): naps(seconds)
        ends = []
        def compute():
            while not ends: sum(range(200))
        busy = threading.Thread(target=compute)
        busy.start()
        for turn in range(30):
            with dashcam.request("GET /"): handle(1.0 if turn == 29 else 0.001)
        ends.append(1)
        busy.join()
        capture = dashcam.open(dashcam.snap())
        sources = {row["name"]: row for row in pyarrow.table(capture.tables["sources"]).to_pylist()}
        assert sources["stacks"]["is_on"] and "under the GIL" in sources["stacks"]["why_off"], sources
        first = str(capture.why())
        assert "naps" in first and "sleep" in first, first
        stacks = [row for row in pyarrow.table(capture.tables["stacks"]).to_pylist()]
        assert "compute" in str(stacks), stacks[:5]
    """))
    assert result.returncode == 0, result.stderr


def test_a_wait_for_the_gil_is_no_lock_of_the_interpreter(bench: Bench) -> None:
    """Its state is not read, but its futexes lie in the interpreter's own memory."""
    result = bench.python(program("""
        import pyarrow
        dashcam.start(slow="10s", out="captures")
        until(is_on, source())
        ends = []
        def compute():
            while not ends: sum(range(200))
        threads = [threading.Thread(target=compute) for _ in range(3)]
        for thread in threads: thread.start()
        def samples():
            with dashcam.request("GET /"): time.sleep(0.5)
            table = dashcam.open(dashcam.snap()).tables["samples"]
            return pyarrow.table(table).select(["wait", "lock_name"]).to_pylist()
        until(lambda: any(row["wait"] == "gil" for row in samples()), "a sample of a wait for the GIL")
        names = {str(row["lock_name"]) for row in samples()}
        ends.append(1)
        assert not any("_PyRuntime" in name for name in names), names
    """))
    assert result.returncode == 0, result.stderr


def test_samples_are_rare_and_stop_with_recording(bench: Bench) -> None:
    result = bench.python(program("""
        sampled = []
        real = dashcam._native.sample_under_gil
        def counted(active):
            sampled.append(time.monotonic())
            return real(active)
        dashcam._native.sample_under_gil = counted
        dashcam.start(slow="10s", out="captures")
        ends = []
        def compute(depth):
            if depth: return compute(depth - 1)
            while not ends: sum(range(200))
        threads = [threading.Thread(target=compute, args=(50,)) for _ in range(20)]
        for thread in threads: thread.start()
        until(is_on, source())
        begin, before = time.monotonic(), len(sampled)
        time.sleep(2)
        made, took = len(sampled) - before, time.monotonic() - begin
        assert 0 < made <= took * 10 + 1, (made, took)
        others = threading.active_count() - 1
        assert _thread._count() == others + 1
        dashcam.stop()
        until(lambda: _thread._count() == others, "it ends with recording")
        dashcam.start(slow="10s", out="captures")
        until(is_on, source())
        assert _thread._count() == others + 1
        ends.append(1)
        for thread in threads: thread.join()
    """))
    assert result.returncode == 0, result.stderr


def test_it_has_ended_before_the_interpreter_does(bench: Bench) -> None:
    code = program("""
        import atexit
        # Runs behind ours.
        atexit.register(lambda: print("left:", _thread._count(), flush=True))
        dashcam.start(slow="10s", out="captures")
        def compute():
            while True: sum(range(200))
        threading.Thread(target=compute, daemon=True).start()
    """)
    for turn in range(12):
        result = bench.python(code + ("\nuntil(is_on, source())\n" if turn % 2 else ""))
        assert (result.returncode, result.stdout) == (0, "left: 1\n"), (turn, result)
        assert result.stderr == "", result.stderr


def test_a_fork_beside_it_does_not_warn(bench: Bench) -> None:
    """CPython warns of threads beside a fork from 3.12 on; this one is ours, also before its first
    sample."""
    result = bench.python(program("""
        import warnings
        warnings.simplefilter("error")
        dashcam.start(slow="10s", out="captures")
        for turn in range(20):
            pid = os.fork()
            if pid == 0: os._exit(0)
            os.waitpid(pid, 0)
            if turn == 10: until(is_on, source())
    """))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr


def test_a_forked_child_samples_once_it_records(bench: Bench) -> None:
    result = bench.python(program("""
        dashcam.start(slow="10s", out="captures")
        until(is_on, source())
        def child(body):
            pid = os.fork()
            if pid == 0:
                try:
                    body()
                    os._exit(0)
                except BaseException as problem:
                    print(repr(problem), file=sys.stderr, flush=True)
                    os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0, body
        def ours():
            tasks = pathlib.Path("/proc/self/task").iterdir()
            return sorted(name for task in tasks if (name := (task / "comm").read_text()).startswith("dashcam-"))
        def idle(): assert ours() == [] and len(os.listdir("/proc/self/task")) == 1
        def records():
            with dashcam.request("GET /"): pass
            until(lambda: "dashcam-under-g\\n" in ours(), ours())
            until(is_on, source())
        def forks_on():
            records()
            child(records)
        for body in (idle, records, forks_on): child(body)
        # One that records nothing and ends in order waits for nobody.
        began = time.monotonic()
        pid = os.fork()
        if pid == 0: sys.exit()
        assert os.waitpid(pid, 0)[1] == 0 and time.monotonic() - began < 1.5
    """))
    assert result.returncode == 0, result.stderr


def test_known_versions_have_no_such_thread(bench: Bench) -> None:
    result = bench.python("""
        import _thread, time
        import dashcam
        dashcam.start(slow="10s", out="captures")
        while dashcam.status()["sources"].get("stacks") != "on": time.sleep(0.01)
        assert _thread._count() == 0
    """)
    assert result.returncode == 0, result.stderr


def test_subinterpreters_are_left_alone(bench: Bench) -> None:
    result = bench.python(program("""
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        dashcam.start(slow="10s", out="captures")
        until(is_on, source())
        made = interpreters.create()
        interpreters.run_string(made, "import time; time.sleep(1)")
        interpreters.destroy(made)
    """))
    assert result.returncode == 0, result.stderr
