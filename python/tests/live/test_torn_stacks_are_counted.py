"""A thread that calls small functions all the time never keeps one stack: the parts of its stack
that could not be confirmed are counted in `status()` and in captures."""

from __future__ import annotations

from conftest import Bench


def test_innermost_frames_never_confirmed_are_counted(bench: Bench) -> None:
    result = bench.python("""
        import threading, time
        import dashcam
        import pyarrow
        dashcam.start(slow="10s", out="captures", budget_percent=50)
        end = time.monotonic() + 60
        def unsettled(): return dashcam.status()["losses"]["stacks_unsettled"]
        def leaf(n): return n
        def small(n): return leaf(leaf(leaf(n)))
        def busy():
            while time.monotonic() < end and not done: small(1)
        done = []
        thread = threading.Thread(target=busy)
        thread.start()
        while not unsettled() and time.monotonic() < end: time.sleep(0.02)
        done.append(1)
        thread.join()
        before = unsettled()
        losses = pyarrow.table(dashcam.open(dashcam.snap()).tables["losses"]).to_pylist()
        reported = {row["what"]: row["count"] for row in losses}["stacks_unsettled"]
        assert 0 < before <= reported <= unsettled(), (before, reported, unsettled())
    """)
    assert result.returncode == 0, result.stderr
