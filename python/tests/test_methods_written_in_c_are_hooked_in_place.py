"""Hooks of methods of classes in C: other interpreters of the process call them as bare, and so does
what the program runs when it is finalized. They hold nothing of the program's, and call sites that
were specialized before are recorded."""

from __future__ import annotations

import sys
import textwrap

import pytest
from conftest import Bench

START = """
import sqlite3
before = sqlite3.Cursor.execute
import dashcam
dashcam.start(slow="60s", out="out", memory="8MiB")
assert sqlite3.Cursor.execute is before
connection = sqlite3.connect(":memory:")
with dashcam.request("GET /"):
    assert connection.execute("select 1").fetchone() == (1,)
"""


def output(bench: Bench, code: str) -> str:
    result = bench.python(textwrap.dedent(START) + textwrap.dedent(code))
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_program_may_call_them_when_it_is_finalized(bench: Bench) -> None:
    assert output(bench, """
        class Last:
            def __init__(self, connection):
                self.connection, self.execute = connection, connection.cursor().execute
            def __del__(self):
                print(self.execute("select 2").fetchone())

        # Bound while the method is hooked; called behind all exit handlers.
        last = Last(connection)
        del connection
        """) == "(2,)\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs interpreters with classes of their own")
def test_another_interpreter_calls_them_as_bare(bench: Bench) -> None:
    assert output(bench, """
        import sys
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters
        other = interpreters.create()
        failed = (interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string)(other, '''if True:
            import sqlite3
            print(sqlite3.connect(":memory:").execute("select 3").fetchone(), flush=True)
            ''')
        assert failed is None, failed
        interpreters.destroy(other)
        print(connection.execute("select 4").fetchone())
        """) == "(3,)\n(4,)\n"


def test_threads_that_hook_at_once_hook_once(bench: Bench) -> None:
    assert output(bench, """
        import threading
        from dashcam import _native
        from dashcam._integrations import calls

        barrier = threading.Barrier(8)
        def again():
            barrier.wait()
            for _ in range(100):
                calls.patch(_native, sqlite3.dbapi2)
        threads = [threading.Thread(target=again) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with dashcam.request("GET /"):
            print(connection.execute("select 5").fetchone())
        import pyarrow
        rows = pyarrow.table(dashcam.open(dashcam.snap()).tables["spans"]).to_pylist()
        print([row["name"] for row in rows if row["name"] == "select"])
        """) == "(5,)\n['select', 'select']\n"


def test_what_calls_past_a_hook_is_out_of_reach(bench: Bench) -> None:
    # It does not check its arguments: CPython did, before it called the hooked method.
    assert output(bench, """
        import gc
        ways = [one for one in gc.get_objects() if type(one).__name__ == "Plain"]
        print([way for way in ways if getattr(way, "__name__", "").startswith("call_")])
        """) == "[]\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the library never ends")
def test_what_is_registered_with_the_library_ends_with_the_program(bench: Bench) -> None:
    # The library's module has it, and ends if no object of its classes is held.
    assert output(bench, """
        import os
        class Adapter:
            def __call__(self, value):
                return "adapted"
            def __del__(self):
                os.write(1, b"finalized")
        sqlite3.register_adapter(complex, Adapter())
        assert connection.execute("select ?", (1j,)).fetchone() == ("adapted",)
        """) == "finalized"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the library never ends")
def test_a_library_that_is_imported_anew_is_hooked_and_the_former_one_ends(bench: Bench) -> None:
    assert output(bench, """
        import gc, sys, weakref
        former = weakref.ref(sqlite3.Connection), weakref.ref(sqlite3.Cursor)
        del before, connection
        for _ in range(5):
            for name in [name for name in sys.modules if name.startswith(("sqlite3", "_sqlite3"))]:
                del sys.modules[name]
            del sqlite3
            import sqlite3
            gc.collect()
        print([reference() for reference in former])
        with dashcam.request("GET /"):
            print(sqlite3.connect(":memory:").execute("select 6").fetchone())
        import pyarrow
        rows = pyarrow.table(dashcam.open(dashcam.snap()).tables["spans"]).to_pylist()
        print([row["name"] for row in rows if row["name"] == "select"])
        """) == "[None, None]\n(6,)\n['select', 'select']\n"


WARM = """
import sqlite3
connection = sqlite3.connect(":memory:")
cursor = connection.cursor()

def work(times):
    # Each call site is specialized for the method that it finds.
    for n in range(times):
        cursor.execute("select ?", (n,))
        connection.execute("select 1")
        connection.commit()
        connection.rollback()
    return cursor.fetchone()

assert work(1_000) == (999,)
import dashcam, pyarrow
dashcam.start(slow="60s", out="out", memory="8MiB")

def recorded():
    with dashcam.request("GET /"):
        connection.execute("create table if not exists t (n int)")
        connection.execute("insert into t values (1)")
        assert work(1) == (0,)
    spans = pyarrow.table(dashcam.open(dashcam.snap()).tables["spans"]).to_pylist()
    return [row["name"] for row in spans if row["name"] in ("select", "commit")]

print(recorded())
assert work(1_000) == (999,)
dashcam.stop()
assert work(1_000) == (999,)
dashcam.start()
print(len(recorded()) > 3)
"""


def test_a_call_site_that_was_specialized_before_is_recorded(bench: Bench) -> None:
    result = bench.python(WARM)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["['select', 'select', 'commit']", "True"]
