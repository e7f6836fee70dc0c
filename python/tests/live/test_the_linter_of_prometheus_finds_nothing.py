"""What dashcam shows Prometheus, through promtool's own linter, built from the Go registry."""

from __future__ import annotations

import shutil
from pathlib import Path

import limited
import pytest
from test_metrics_for_prometheus import KINDS, reported

LINT = Path(__file__).resolve().parents[3] / "tests/openmetrics"


@pytest.mark.seconds(900)
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here, so no linter of Prometheus")
def test_the_linter_of_prometheus_finds_nothing(bench, tmp_path):
    lint = tmp_path / "lint"
    limited.run(["go", "build", "-o", str(lint), "."], 600, cwd=LINT, check=True)
    [found], _ = reported(bench, KINDS, "127.0.0.1:0")
    result = limited.run([str(lint)], 60, input=found["plain"], text=True, capture_output=True)
    lines = [line for line in result.stdout.splitlines() if line]
    assert result.stderr == "" and lines == [], (lines, result.stderr)
    wrong = limited.run([str(lint)], 60, input="# TYPE a counter\na 1\n", text=True, capture_output=True)
    assert wrong.returncode == 3, "it does find what is wrong"
