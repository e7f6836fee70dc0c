"""Hooks of methods of classes in C: other interpreters of the process call them as bare, and so does
what the program runs when it is finalized."""

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


def test_what_calls_past_a_hook_checks_its_arguments_as_the_method_does(bench: Bench) -> None:
    assert output(bench, """
        import gc
        past = {one.__qualname__: one for one in gc.get_objects() if type(one).__name__ == "Plain"}
        def answer(function, *args, **named):
            try:
                return type(function(*args, **named))
            except TypeError as error:
                return str(error)
        def compare(name, method, this):
            for args, named in [(), {}], [(1,), {}], [(this, "select 6"), {}], [(this,), {"name": 7}], [(this, 8, 9), {}]:
                bare, same = answer(method, *args, **named), answer(past[name], *args, **named)
                assert bare == same, (bare, same)
        compare("Cursor.execute", sqlite3.Cursor.execute, connection.cursor())
        compare("Connection.commit", sqlite3.Connection.commit, connection)
        print("as bare")
        """) == "as bare\n"
