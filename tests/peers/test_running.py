"""A suite's process has nothing of its caller's."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import running  # noqa: E402
from environment import Place  # noqa: E402
from projects import Project  # noqa: E402


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_signals_end_a_suite_that_runs_in_a_background_job(tmp_path: Path, number: signal.Signals) -> None:
    project = Project("billy", "1.0", "", keep=(), run=())
    place = Place(tmp_path, Path(sys.executable), Path())
    words = ["-c", f"import signal; signal.raise_signal({int(number)})"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        end = running._process(project, place, running.BARE, words, tmp_path)
    finally:
        signal.signal(number, before)
    assert end == number.name
