"""What `--reruns` runs again: whatever failed but a host that a signal ended or that panicked."""

from __future__ import annotations

import re

import pytest

from conftest import DIED


@pytest.mark.parametrize("text", [
    "AssertionError: \nassert -11 == 0\n +  where -11 = CompletedProcess(args=['python'], returncode=-11)",
    "AssertionError: (-6, 'out', 'err')",
    "RuntimeError: the service ended with SIGSEGV",
    "AssertionError: thread 'dashcam' panicked at crates/ring/src/lib.rs:1:1",
])
def test_a_host_that_died_is_known_by_what_is_said_of_it(text: str) -> None:
    assert re.search(DIED, text), text


@pytest.mark.parametrize("text", [
    "AssertionError: ({'path': '/srv/captures/shop-2026-11-22T10-08-11.dashcam'}, 'Thread-8 (work)')",
    "AssertionError: assert 3 == -4",
    "Waited: waited 90 s in vain for a capture; found []",
    "AssertionError: assert -9 == 0",
])
def test_dates_threads_and_numbers_are_no_signals(text: str) -> None:
    assert not re.search(DIED, text), text
