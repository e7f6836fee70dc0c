"""A slow request that computes, or waits, in a C extension: the verdict's place is the Python code
that called it, and the native functions are inside its frames."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import limited
import pytest
from conftest import on_a_busy_machine

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="stacks of x86-64 only")

COMPUTES = """
import sqlite3, time
import dashcam

QUERY = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) select max(i * 7 % 13) from n"

def count(base, rows):
    return base.execute(QUERY, (rows,)).fetchone()

dashcam.start(service="counts", slow="100ms", out=OUT)
base = sqlite3.connect(":memory:")
rows = 100_000
begin = time.thread_time()
count(base, rows)
# As many rows as take 0.4 s of CPU here.
many = int(rows * 0.4 / max(time.thread_time() - begin, 1e-4))
time.sleep(0.3)
for turn in range(40):
    with dashcam.request("GET /count"):
        count(base, many if turn % 10 == 9 else 100)
dashcam.snap("test")
dashcam.stop()
"""

WAITS = """
import sqlite3, threading, time
import dashcam

def store(base):
    base.execute("insert into t values (1)")

def hold():
    other = sqlite3.connect(OUT + ".db", isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    return other

dashcam.start(service="waits", slow="100ms", out=OUT)
base = sqlite3.connect(OUT + ".db", isolation_level=None, timeout=5)
base.execute("create table t (i)")
time.sleep(0.3)
for turn in range(40):
    if turn % 10 == 9:
        other = hold()
        threading.Timer(0.3, other.rollback).start()
    with dashcam.request("GET /store"):
        store(base)
dashcam.snap("test")
dashcam.stop()
"""

# The same if the library is loaded after stacks have been read: after slow requests that sleep.
LATE = WAITS.replace("import sqlite3, threading, time", "import threading, time").replace("base = sqlite3.connect", """
for turn in range(3):
    with dashcam.request("GET /pause"):
        time.sleep(0.4)
import sqlite3
base = sqlite3.connect""")


def run(program: str, folder: Path) -> Path:
    """Runs the program; its last capture."""
    out = folder / "captures"
    source = folder / "program.py"
    source.write_text(f"OUT = {str(out)!r}\n{program}", encoding="utf-8")
    limited.run([sys.executable, str(source)], 120, check=True, cwd=folder)
    return max(out.glob("*.dashcam"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))


def dashcam(*arguments: str) -> str:
    """The command's output."""
    command = [str(Path(sys.executable).with_name("dashcam")), *arguments]
    return str(limited.run(command, 120, capture_output=True, text=True).stdout)


def folded(capture: Path) -> list[list[str]]:
    """The stacks of the capture, outermost frame first."""
    lines = dashcam("export", str(capture), "--to", "folded", "-o", "-").splitlines()
    return [line.rsplit(" ", 1)[0].split(";") for line in lines]


def inner(stacks: list[list[str]], function: str) -> set[str]:
    """The functions of frames inside (called by) the Python function."""
    found = set()
    for stack in stacks:
        names = [frame.split(" ")[0].rsplit(":", 1)[-1] for frame in stack]
        places = [i for i, frame in enumerate(stack) if frame.startswith(function)]
        if places:
            found.update(names[places[-1] + 1 :])
    return found


def test_computing_in_an_extension_has_native_frames_inside_its_python_frames(tmp_path: Path) -> None:
    capture = run(COMPUTES, tmp_path)
    why = json.loads(dashcam("why", "--json", str(capture)))
    if why["capture"]["sources"]["running_stacks"] != "on":
        pytest.skip(why["capture"]["sources"]["running_stacks"])
    cpu = [cause for cause in why["causes"] if cause["cause"] == "cpu"]
    # For a request that mostly had no CPU the verdict says so, rightly; its frames are there all
    # the same.
    starved = on_a_busy_machine() and why["causes"][:1] and why["causes"][0]["cause"] == "cpu-starved"
    assert cpu or starved, why["causes"]
    for cause in cpu:
        assert cause["where"]["function"] == "count", cause
        native = [e["what"] for e in cause["evidence"] if "native code" in e["what"]]
        assert len(native) == 1 and "sqlite3" in native[0], cause["evidence"]
    frames = inner(folded(capture), "count")
    assert any("sqlite3" in frame for frame in frames), frames
    assert not any("PyEval" in frame or "vectorcall" in frame for frame in frames), frames


@pytest.mark.parametrize("program", [WAITS, LATE], ids=["loaded at the start", "loaded later"])
def test_a_wait_in_an_extension_has_native_frames_inside_its_python_frames(program: str, tmp_path: Path) -> None:
    capture = run(program, tmp_path)
    why = json.loads(dashcam("why", "--json", str(capture)))
    stores = [c for c in why["causes"] if c["where"]["function"] == "store"]
    assert stores and stores[0]["cause"] == "lock-wait", why["causes"]
    frames = inner(folded(capture), "store")
    assert any("sqlite3" in frame for frame in frames), frames
    assert not any("PyEval" in frame or "vectorcall" in frame for frame in frames), frames
