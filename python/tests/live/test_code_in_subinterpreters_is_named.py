"""A request that is slow in a subinterpreter: the verdict names the function there, reached from
the caller's."""

from __future__ import annotations

from conftest import Bench


def test_a_slow_function_in_a_subinterpreter_is_named(bench: Bench) -> None:
    bench.write("sick.py", """
        import time
        def naps(seconds): time.sleep(seconds)
    """)
    result = bench.python("""
        import dashcam
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        CODE = "import sys; sys.path.insert(0, '.'); import sick; sick.naps(%s)"
        dashcam.start(slow="300ms", out="captures")
        made = interpreters.create()
        def calls(seconds): interpreters.run_string(made, CODE % seconds)
        for turn in range(20):
            with dashcam.request("GET /"): calls(0.8 if turn == 19 else 0.001)
        interpreters.destroy(made)
        capture = dashcam.open(dashcam.snap())
        why = str(capture.why())
        assert "sick.py:3 naps() slept for" in why and "calls()" in why, why
    """)
    assert result.returncode == 0, result.stderr
