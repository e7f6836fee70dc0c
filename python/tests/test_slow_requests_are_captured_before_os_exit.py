"""A process that ends by os._exit, as a child of multiprocessing or RQ's process of a job does, runs no exit handlers:
its slow requests are in a capture all the same, and a process without any ends as before."""

from __future__ import annotations

import pytest

from conftest import Bench


@pytest.mark.parametrize(("took_s", "at_exit", "captures"), [(0.01, "slow", 1), (0.01, "never", 0), (0.0, "slow", 0)])
def test_a_forked_child(bench: Bench, took_s: float, at_exit: str, captures: int) -> None:
    limit = "1ms" if took_s else "60s"
    result = bench.python(f"""
        import os, time
        import dashcam
        # Nothing else makes a capture in time.
        assert dashcam.start(slow="{limit}", post="10m", at_exit="{at_exit}")
        pid = os.fork()
        if pid == 0:
            with dashcam.request("job"): time.sleep({took_s})
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert (result.returncode, result.stdout) == (0, "3\n"), result.stderr
    found = bench.captures()
    assert len(found) == captures, (found, result.stderr)
    assert all("job" in bench.dashcam("show", str(path)).stdout for path in found), found
