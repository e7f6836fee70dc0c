"""Daemon threads are in the program's code, called by code of dashcam, when the interpreter ends.
Up to 3.13 it ends each by unwinding its stack, which must not reach dashcam's frames, or the
process aborts."""

from __future__ import annotations

import pytest
from conftest import Bench

PROGRAM = """
    import sys, threading, time
    import dashcam
    from dashcam import _native

    inside = threading.Barrier(5)
    def naps():
        inside.wait()
        while True: time.sleep(0.001)
    class Slow:
        def __str__(self): return naps()
    def wsgi(): _native.wsgi_call(lambda environ, start_response: naps(), {}, print)
    def attribute():
        with dashcam.request("GET /", slow=Slow()): pass
    class Last:
        # Lets the others run while the interpreter takes itself apart.
        def __del__(self, sleep=time.sleep): sleep(0.3)

    dashcam.start(slow="10m")
    for _ in range(4): threading.Thread(target=CALLS, daemon=True).start()
    inside.wait()
    last = Last()
    sys.exit(0)
"""


@pytest.mark.parametrize("calls", ["wsgi", "attribute"])
def test_the_process_ends_with_its_own_exit_code(bench: Bench, calls: str) -> None:
    result = bench.python(PROGRAM.replace("CALLS", calls))
    assert (result.returncode, result.stderr) == (0, ""), result
