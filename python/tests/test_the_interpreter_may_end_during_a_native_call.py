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

    class Server:
        def serve(self): naps()
    def hooked(): Server().serve()
    def work(): _native.work(1, naps)()
    began = threading.Event()
    def calls():
        began.wait()
        CALLS()

    START
    inside.wait()
    last = Last()
    sys.exit(0)
"""


RECORDER = """
    dashcam.start(slow="10m")
    _native.hook(Server, "serve", before=lambda *args: None)
"""
THREADS = """
    for _ in range(4): threading.Thread(target=calls, daemon=True).start()
"""


@pytest.mark.parametrize("calls", ["wsgi", "attribute", "hooked", "work"])
@pytest.mark.parametrize("first", [RECORDER, THREADS], ids=["recorder", "threads"])
def test_the_process_ends_with_its_own_exit_code(bench: Bench, calls: str, first: str) -> None:
    """Also if the threads were there before the recorder, as with `dashcam attach`."""
    second = THREADS if first is RECORDER else RECORDER
    start = f"{first}{second}    began.set()\n".strip()
    result = bench.python(PROGRAM.replace("START", start).replace("CALLS", calls))
    assert (result.returncode, result.stderr) == (0, ""), result
