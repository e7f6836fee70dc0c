"""A process that is stopped does not answer: another shell waits for it as long as for any, five seconds."""

from __future__ import annotations

import signal

from conftest import Bench
from test_control_socket import runtime, started


def test_a_stopped_process_makes_nobody_wait_for_ever(bench: Bench) -> None:
    process = started(bench)
    process.send_signal(signal.SIGSTOP)
    result = bench.dashcam("status", str(process.pid), XDG_RUNTIME_DIR=runtime(bench))
    process.send_signal(signal.SIGCONT)
    assert result.returncode == 3 and "no answer within 5 s; is it stopped?" in result.stderr
