"""`dashcam why FOLDER` judges the newest capture, and compares it with the others there: the same
cause again, in how many processes, or other causes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from conftest import Bench

PROGRAM = """
    import sys, time
    import dashcam
    def dozes(): time.sleep(0.15)
    def toils():
        end = time.thread_time() + 0.15
        while time.thread_time() < end: sum(range(1000))
    dashcam.start(service=sys.argv[1], out="captures", slow="100ms", at_exit="never", cooldown="1h")
    for request in range(40):
        with dashcam.request("GET /"):
            if request % 8 == 7: globals()[sys.argv[2]]()
            else: time.sleep(0.002)
    dashcam.snap("done")
"""


def runs(bench: Bench, service: str, what: str) -> None:
    """One process, and its captures: all but the last remain."""
    path = bench.write("program.py", PROGRAM)
    before = set(bench.folder.glob("captures/*.dashcam"))
    result = bench.run([sys.executable, "-W", "error", str(path), service, what])
    assert result.returncode == 0, result.stderr
    new = sorted(set(bench.folder.glob("captures/*.dashcam")) - before, key=lambda p: p.stat().st_mtime_ns)
    for path in new[:-1]:
        path.unlink()


def test_the_same_cause_and_others_by_capture_and_process(bench: Bench) -> None:
    (bench.folder / "captures").mkdir()
    (bench.folder / "captures" / "empty.dashcam").write_bytes(b"")
    for service, what in [("shop", "dozes"), ("shop", "toils"), ("bank", "toils"), ("shop", "dozes")]:
        runs(bench, service, what)
    newest = max(bench.folder.glob("captures/*.dashcam"), key=lambda p: p.stat().st_mtime_ns)
    text = bench.dashcam("why", "captures").stdout
    last = text.splitlines()[-1]
    assert last.startswith("Other captures here: the same cause comes first in 1 of 2 ("), text
    assert "; cpu at program.py:" in last and " in 1 of 2 (" in last and last.endswith("; 1 not read."), text
    reported = json.loads(bench.dashcam("why", "captures", "--json").stdout)
    assert Path(reported["capture"]["file"]).name == newest.name
    others = reported["others"]
    assert (others["read"], others["unread"], others["without_cause"]) == (2, 1, 0), others
    by_cause = {cause["cause"]: cause for cause in others["causes"]}
    assert set(by_cause) == {"sleep", "cpu"}, others
    assert by_cause["sleep"]["same"] and not by_cause["cpu"]["same"], others
    assert by_cause["sleep"]["fingerprint"] == reported["causes"][0]["fingerprint"]
    assert [len(cause["pids"]) for cause in by_cause.values()] == [1, 1], others
    page = (Path(__file__).parents[3] / "docs" / "verdict-json.md").read_text(encoding="utf-8")
    for name in [*others, *others["causes"][0]]:
        assert name == "causes" or f".{name}`" in page, name
    ticket = bench.dashcam("why", "captures", "--md").stdout
    assert "Other captures here: the same cause comes first in 1 of 2" in ticket, ticket


def test_a_single_capture_is_not_compared(bench: Bench) -> None:
    runs(bench, "shop", "dozes")
    assert "Other captures" not in bench.dashcam("why", "captures").stdout
    [path] = bench.folder.glob("captures/*.dashcam")
    assert "others" not in json.loads(bench.dashcam("why", str(path), "--json").stdout)
    # A rule on the command line holds for all of them.
    runs(bench, "shop", "dozes")
    reported = bench.dashcam("why", "captures", "--slow", "10s").stdout
    assert reported.splitlines()[-1] == "Other captures here: no cause in 1.", reported
