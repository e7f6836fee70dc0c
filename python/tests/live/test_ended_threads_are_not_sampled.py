"""The sampler lists threads only now and then. Threads that ended meanwhile must not be sampled:
their Python state may be another thread's by then."""

from __future__ import annotations

from conftest import Bench


def test_nothing_is_seen_of_a_thread_behind_its_end(bench: Bench) -> None:
    result = bench.python("""
        import os, threading, time
        import dashcam
        import pyarrow
        dashcam.start(slow="100ms", post="10m", out="captures")
        def early():
            time.sleep(0.03)
        def late():
            with dashcam.request("GET /"):
                time.sleep(0.15)
        for turn in range(12):
            body = early if turn % 2 else late
            threads = [threading.Thread(target=body) for _ in range(6)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            # What Python joined may still be on its way out of the kernel.
            while any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads):
                time.sleep(0.001)
            for thread in threads: dashcam.event(f"joined {thread.native_id}")
        tables = dashcam.open(dashcam.snap()).tables
        events = pyarrow.table(tables["events"]).to_pylist()
        samples = pyarrow.table(tables["samples"]).to_pylist()
        ended = {int(event["name"].split()[1]): event["t_ns"] for event in events}
        assert len(ended) == 72, ended
        seen = [row for row in samples if row["tid"] in ended]
        wrong = [row for row in seen if row["t_ns"] > ended[row["tid"]]]
        assert seen and not wrong, (len(seen), len(wrong), wrong[:2])
    """)
    assert result.returncode == 0, result.stderr
