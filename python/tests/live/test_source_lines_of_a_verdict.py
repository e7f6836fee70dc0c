"""Setting `source_lines`: a recorded service's captures keep the lines of source that the verdict names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Bench

PROGRAM = """
    import dashcam, time
    def backoff():
        time.sleep(0.4)   # the defect
    dashcam.start(service="billy", slow="250ms", post="50ms", cooldown="100ms")
    for i in range(40):
        with dashcam.request("checkout"):
            time.sleep(0.001)
            if i == 39:
                backoff()
    while not dashcam.status()["verdicts"]["last"]: time.sleep(0.01)
    dashcam.stop()
"""


def verdict(bench: Bench, *words: str) -> str:
    result = bench.dashcam("why", "captures", *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("setting", ["on", "off"])
def test_the_lines_are_in_the_capture_if_the_setting_is_on(bench: Bench, setting: str) -> None:
    result = bench.python(PROGRAM, DASHCAM_SOURCE_LINES=setting, DASHCAM_EXPLAIN="on")
    assert result.returncode == 0, result.stderr
    (capture,) = bench.captures()
    place = json.loads(verdict(bench, "--json"))["causes"][0]["where"]
    program = Path(place["file"])
    assert (place["line"], place["function"]) == (4, "backoff")
    # What `why` shows is in the capture: the file of the program is no longer there.
    program.unlink()
    line = "time.sleep(0.4)   # the defect"
    source = json.loads(verdict(bench, "--json"))["causes"][0]["where"]["source"]
    if setting == "on":
        assert source["lines"][place["line"] - source["first"]].strip() == line
        assert source["changed"] is False
        assert f"   program.py:4: {line}\n" in verdict(bench)
        assert f"- `program.py:4`: `{line}`" in verdict(bench, "--md").splitlines()
    else:
        assert source is None
        assert line not in capture.read_bytes().decode("utf-8", "replace")
        assert line not in verdict(bench) + verdict(bench, "--md")
