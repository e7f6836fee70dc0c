"""What many threads cost: one pass over deep stacks, and a thread that computes amid 256 others.

First table: a pass of the stack reader over 16 threads of 500 frames, beside walking
`sys._current_frames()` in the same process.
Second table: passes a second with 16, 64 and 256 threads, and what a thread that computes loses to
whoever samples it 100 times a second: dashcam, py-spy, ddtrace's profiler; turns alternate. Each runs in
a process of its own; a rival that is not installed is SKIPPED.

    python bench/python/crowd.py [--quick] [PROBE]

PROBE: the shared library of `cargo build --release -p dashcam-samplers --example stack_probe`."""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
MEASURE = HERE.parents[2] / "crates/samplers/tests/python/measure.py"


def deep(depth: int, stop: threading.Event) -> None:
    """Sits at the bottom of a stack of `depth` frames; wakes five times a second."""
    if depth:
        deep(depth - 1, stop)
        return
    while not stop.wait(0.2):
        pass


def turns(seconds: float) -> float:
    """How often a loop goes round in a second of wall time, computing."""
    count = 0
    begin = time.perf_counter()
    end = begin + seconds
    while time.perf_counter() < end:
        for _ in range(1000):
            count += 1
    return count / (time.perf_counter() - begin)


def child(way: str, threads: int, seconds: float) -> None:
    """One process: `threads` deep threads, one that computes; prints what it did as JSON."""
    stop = threading.Event()
    threading.stack_size(16 << 20)
    sys.setrecursionlimit(2000)
    running = [threading.Thread(target=deep, args=(50, stop)) for _ in range(threads)]
    for thread in running:
        thread.start()
    said: dict[str, Any] = {}
    spy = None
    if way == "dashcam":
        import dashcam

        dashcam.start(service="crowd", out=tempfile.mkdtemp(prefix="dashcam-bench-"), slow="1h")
    elif way == "ddtrace":
        from ddtrace.profiling import Profiler

        Profiler().start()
    elif way == "py-spy":
        import os

        spy = subprocess.Popen(
            [py_spy(), "record", "-r", "100", "-d", "600", "-f", "raw", "-o", "/dev/null", "-p", str(os.getpid())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    before = status(way)
    begin = time.perf_counter()
    said["turns"] = turns(seconds)
    took = time.perf_counter() - begin
    after = status(way)
    if before and after:
        said["passes"] = (after["passes"] - before["passes"]) / took
        said["samples"] = (after["samples"] - before["samples"]) / took
        said["cpu"] = (after["cpu_ns"] - before["cpu_ns"]) / took / 1e7
    if spy is not None:
        said["alive"] = spy.poll() is None
        spy.terminate()
        spy.wait()
    stop.set()
    for thread in running:
        thread.join()
    print(json.dumps(said), flush=True)


def status(way: str) -> dict[str, int] | None:
    """The sampler's counts."""
    if way != "dashcam":
        return None
    import dashcam

    return dict(dashcam.status()["sampler"])


def py_spy() -> str:
    """py-spy beside this Python or on PATH; "" where there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or ""


def run(way: str, threads: int, seconds: float) -> dict[str, Any]:
    """One child's answer."""
    command = [sys.executable, str(HERE), "--child", way, str(threads), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way} with {threads} threads ended with {done.returncode}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def one_pass(probe: str) -> None:
    """The first table."""
    import os

    done = subprocess.run([sys.executable, str(MEASURE)], env={**os.environ, "DASHCAM_PROBE": probe},
                          capture_output=True, text=True, check=False)
    print(done.stdout.strip() or f"SKIPPED: one pass ({done.stderr.strip()[-300:]})")


def main() -> None:
    """Prints both tables."""
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    quick = "--quick" in sys.argv
    if arguments:
        one_pass(arguments[0])
    else:
        print("SKIPPED: one pass over 16 threads x 500 frames (no probe named)")
    seconds, rounds = (2.0, 3) if quick else (5.0, 7)
    print(f"{'threads':>8}{'passes/s':>11}{'samples/s':>12}{'CPU %':>8}")
    for threads in (16, 64, 256):
        said = run("dashcam", threads, seconds)
        print(f"{threads:>8}{said['passes']:>11.1f}{said['samples']:>12.0f}{said['cpu']:>8.2f}")
    ways = ["nothing", "dashcam"]
    for way, there in (("py-spy", py_spy()), ("ddtrace", importlib.util.find_spec("ddtrace"))):
        if there:
            ways.append(way)
        else:
            print(f"SKIPPED: {way} (not installed beside {sys.executable})")
    found: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds):
        for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
            said = run(way, 256, seconds)
            if said.get("alive", True):
                found[way].append(said["turns"])
    print("a thread that computes, amid 256 others:")
    bare = statistics.median(found["nothing"])
    for way, values in found.items():
        if not values:
            print(f"{way:>10}  SKIPPED: it ended before the measurement did")
            continue
        middle = statistics.median(values)
        spread = (max(values) - min(values)) / middle * 100
        print(f"{way:>10}{middle / 1e6:>9.2f} M turns/s{(1 - middle / bare) * 100:>8.1f} % lost, spread {spread:.1f} %")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
