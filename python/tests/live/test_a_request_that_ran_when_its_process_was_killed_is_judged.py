"""The box of a killed process is judged: the wait of its open request when SIGKILL came."""

from __future__ import annotations

import sys

from conftest import PATIENCE_S, Bench, blames


def test_a_request_that_ran_when_its_process_was_killed_is_judged(bench: Bench) -> None:
    program = bench.write("program.py", """
        import dashcam, os, signal, time
        dashcam.start(service="hung", slow="200ms", post="10m", out="captures")
        for _ in range(10):
            with dashcam.request("GET /"):
                time.sleep(0.002)
        def upstream():
            time.sleep(0.8)
            os.kill(os.getpid(), signal.SIGKILL)
        print(os.getpid(), flush=True)
        with dashcam.request("GET /"):
            upstream()
    """)
    service = bench.start([sys.executable, str(program)])
    out, err = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == -9, err
    [box] = bench.boxes.glob(f"hung-{int(out)}-*.box")
    recovered = bench.dashcam("recover", str(box), "-o", "hung.dashcam")
    assert recovered.returncode == 0, recovered.stderr
    verdict = bench.dashcam("why", "hung.dashcam")
    assert blames(verdict.stdout, "sleep", "upstream()"), verdict.stdout
