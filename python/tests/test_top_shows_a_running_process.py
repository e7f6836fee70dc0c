"""`dashcam top`: requests by name, open ones and where they are, read from the box of a running process."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from conftest import Bench, wait_for

PROGRAM = """
    import sys, threading
    import dashcam
    dashcam.start(service="topped", out="captures", slow="1h")
    def waits(): sys.stdin.readline()
    for turn in range(30):
        with dashcam.request("GET /a" if turn % 3 else "GET /b"): pass
    with dashcam.request("GET /open"):
        print("ready", flush=True)
        waits()
"""
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "top.md"


def test_requests_and_open_ones_are_shown_and_documented(bench: Bench) -> None:
    service = bench.start([sys.executable, str(bench.write("program.py", PROGRAM))], stdin=True)
    try:
        def seen() -> Any:
            result = bench.dashcam("top", str(service.pid), "--once", "--json")
            found = json.loads(result.stdout) if result.returncode == 0 else {}
            at = {thread["tid"]: thread["where"] for thread in found.get("threads", [])}
            # The sampler has seen the thread by then.
            return found if found.get("open") and at.get(found["open"][0]["tid"]) else None

        found = wait_for("the open request and its place", seen)
        assert (found["service"], found["pid"], found["on"]) == ("topped", service.pid, True)
        assert [open_["name"] for open_ in found["open"]] == ["GET /open"]
        at = {thread["tid"]: thread["where"] for thread in found["threads"]}
        assert at[found["open"][0]["tid"]] .endswith(" waits()")
        assert found["requests_total"] == 31, found
        page = PAGE.read_text(encoding="utf-8")
        names = [*found, *(name for part in ("open", "threads") for name in found[part][0])]
        for name in names:
            assert re.search(rf"`{name}(\[\])?`", page), name
        text = bench.dashcam("top", "topped", "--once").stdout
        assert f"topped, process {service.pid}: 31 requests, 0 slow, 0 captures\n" in text, text
    finally:
        service.kill()
        service.communicate()


def test_what_cannot_be_shown_is_one_line(bench: Bench) -> None:
    for word, code, wanted in [("no-such-service", 1, "no process of this user is recorded"), ("4194305", 1, "no such process")]:
        result = bench.dashcam("top", word, "--once")
        assert (result.returncode, result.stdout) == (code, ""), result
        assert wanted in result.stderr and result.stderr.count("\n") == 1, result.stderr
