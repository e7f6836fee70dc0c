"""A short, enumerated part of tests/faults/run.py: every call site of some system calls fails once,
and some worlds. The whole is `make test-live PARTS=faults`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import limited

RUN = Path(__file__).resolve().parents[2] / "tests" / "faults" / "run.py"
# A run of the program takes a second or two, each part some ten of them.
SECONDS = 400.0
# Three of them share the run that finds their call sites.
CALLS = (("clone3", "close_range", "pidfd_getfd"), ("pidfd_open", "fallocate", "bind"),
         ("perf_event_open", "accept4"), ("process_vm_writev", "membarrier"))
# Each names the worlds that contain it.
WORLDS = ("as it is", "a full /dev/shm", "a full folder", "32 descriptors", "an interval timer", "everything closed",
          "a daemon that closes", "os._exit in a thread", "os._exit at once")


def survived(*words: str) -> None:
    done = limited.run([sys.executable, RUN, "--quick", *words], SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.seconds(SECONDS + 60)
@pytest.mark.parametrize("calls", CALLS)
def test_the_program_does_not_notice_that_a_call_fails(calls: "tuple[str, ...]") -> None:
    survived("calls", *calls)


@pytest.mark.seconds(SECONDS + 60)
@pytest.mark.parametrize("world", WORLDS)
def test_the_program_does_not_notice_its_world(world: str) -> None:
    survived("worlds", world)
