"""Samples of an event loop's thread name the running asyncio task: by the name the program gave it,
else by its coroutine. Also in programs that never begin a request."""

from __future__ import annotations

import json
import sys
from typing import Any

import dashcam
import pyarrow
import pytest
from conftest import Bench

LOOPS = {
    "asyncio": "run = asyncio.run",
    "uvloop": """
import uvloop
def run(main):
    loop = uvloop.new_event_loop()
    loop.run_until_complete(main)
    loop.close()
""",
}

SERVICE = """
import asyncio, threading, time
import dashcam

dashcam.start(service="tasks", slow="200ms", post="100ms", cooldown="60s")
{loop}

async def refresh():
    time.sleep(0.5)

def digest():
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        sum(range(1000))

async def compact():
    await asyncio.sleep(0.05)
    digest()

async def handle():
    with dashcam.request("GET /"):
        await asyncio.sleep(0.001)

async def main():
    for _ in range(40):
        await handle()
    late = asyncio.ensure_future(handle())
    await asyncio.sleep(0)
    await asyncio.create_task(refresh(), name="refresh prices")
    await late
    await asyncio.create_task(compact())

def beside():
    async def keeps():
        time.sleep(0.6)
    async def other():
        await asyncio.create_task(keeps(), name="beside")
    run(other())

thread = threading.Thread(target=beside)
thread.start()
run(main())
thread.join()
print(dashcam.snap("asked"))
"""

WORKER = """
import sys, time
assert "asyncio" not in sys.modules, "imported for our sake"
time.sleep(0.1)
import asyncio

async def rebuild():
    time.sleep(0.5)

async def main():
    await asyncio.create_task(rebuild(), name="rebuild index")

asyncio.run(main())
"""


def rows(path: str, table: str) -> list[dict[str, Any]]:
    """A table of a capture."""
    made: list[dict[str, Any]] = pyarrow.table(dashcam.open(path).tables[table]).to_pylist()
    return made


@pytest.mark.parametrize("loop", LOOPS)
def test_a_service_whose_loops_are_recorded(bench: Bench, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    result = bench.python(SERVICE.format(loop=LOOPS[loop]))
    assert result.returncode == 0, result.stderr
    path = result.stdout.strip().splitlines()[-1]
    samples = rows(path, "samples")
    reported = {row["running_task"] for row in samples} - {None}
    assert {"refresh prices", "compact()", "beside"} <= reported, reported
    own = {"refresh prices", "compact()", "beside", "main()", "handle()", "beside.<locals>.other()", "other()"}
    assert reported <= own, f"asyncio's own names say nothing: {reported}"
    tids = {row["running_task"]: row["tid"] for row in samples if row["running_task"]}
    assert tids["refresh prices"] == tids["compact()"] != tids["beside"]
    assert all(row["running_task"] is None for row in samples if row["wait"] == "poll")
    waits = [row for row in rows(path, "waits") if row["running_task"] == "refresh prices"]
    assert any(row["kind"] == "sleep" and "refresh()" in row["place"] for row in waits), waits
    verdict = json.loads(bench.dashcam("why", path, "--json").stdout)
    blocked = [found for found in verdict["causes"] if found["cause"] == "event-loop-blocked"]
    assert any("`refresh prices`" in row["what"] for row in blocked[0]["evidence"]), verdict["causes"]


def test_a_worker_that_imports_asyncio_late_and_begins_no_request(bench: Bench) -> None:
    program = bench.write("worker.py", WORKER)
    result = bench.dashcam("run", "--", sys.executable, str(program), DASHCAM_AT_EXIT="always")
    assert result.returncode == 0, result.stderr
    [path] = bench.captures()
    reported = {row["running_task"] for row in rows(str(path), "samples")}
    assert "rebuild index" in reported, reported
