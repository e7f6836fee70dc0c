"""A short, enumerated part of tests/faults/run.py: every call site of some system calls fails once,
and some worlds. The whole is `make test-live PARTS=faults`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import limited

RUN = Path(__file__).resolve().parents[2] / "tests" / "faults" / "run.py"
# A run of the program takes a second or two, each part some twenty of them.
SECONDS = 800.0


@pytest.mark.seconds(SECONDS + 60)
@pytest.mark.parametrize("words", [
    ("calls", "clone3", "close_range", "pidfd_getfd", "pidfd_open", "fallocate"),
    ("calls", "perf_event_open", "process_vm_writev", "membarrier", "accept4", "bind"),
    ("worlds",),
])
def test_the_program_does_not_notice(words: "tuple[str, ...]") -> None:
    done = limited.run([sys.executable, RUN, "--quick", *words], SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
