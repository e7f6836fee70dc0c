"""What many threads cost: one pass over deep stacks, and a thread that computes amid 256 others.

First table: a pass of the stack reader over 16 threads of 500 frames, beside walking
`sys._current_frames()` in the same process.
Second table: passes a second with 16, 64 and 256 threads.
Third table: what a thread that computes amid 256 others loses to whoever samples it 100 times a second:
dashcam, py-spy, ddtrace's profiler. Two processes, one of them sampled, compute in turn, a quarter of a
second each, so that a machine whose speed changes does so for both; the loss is the median over all such
pairs, with its 95 % interval, of several couples of processes (the memory of
each lies elsewhere, which alone makes some percent). "nothing"
beside nothing tells what the method cannot see. A rival that is not installed is SKIPPED.

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


def deep(depth: int, turn: threading.Event, stop: threading.Event) -> None:
    """Sits at the bottom of a stack of `depth` frames; wakes five times a second while it is its turn."""
    if depth:
        deep(depth - 1, turn, stop)
        return
    while not stop.wait(0.2):
        turn.wait()


def turns(seconds: float) -> float:
    """How often a loop goes round in a second of wall time, computing."""
    count = 0
    begin = time.perf_counter()
    end = begin + seconds
    while time.perf_counter() < end:
        for _ in range(1000):
            count += 1
    return count / (time.perf_counter() - begin)


def child(way: str, threads: int) -> None:
    """One process: `threads` deep threads, one that computes. For each number on stdin it computes so many
    seconds and prints what it did as JSON; it ends with its stdin."""
    stop, turn = threading.Event(), threading.Event()
    threading.stack_size(16 << 20)
    sys.setrecursionlimit(2000)
    running = [threading.Thread(target=deep, args=(50, turn, stop)) for _ in range(threads)]
    for thread in running:
        thread.start()
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
    for line in sys.stdin:
        turn.set()
        time.sleep(0.05)  # all of them have woken
        before, begin = status(way), time.perf_counter()
        said: dict[str, Any] = {"turns": turns(float(line))}
        after, took = status(way), time.perf_counter() - begin
        turn.clear()
        if before and after:
            said["passes"] = (after["passes"] - before["passes"]) / took
            said["samples"] = (after["samples"] - before["samples"]) / took
            said["cpu"] = (after["cpu_ns"] - before["cpu_ns"]) / took / 1e7
        said["alive"] = spy is None or spy.poll() is None
        print(json.dumps(said), flush=True)
    if spy is not None:
        spy.terminate()
        spy.wait()
    turn.set()
    stop.set()
    for thread in running:
        thread.join()


class Child:
    """Such a process."""

    def __init__(self, way: str, threads: int) -> None:
        self.way = way
        self.process = subprocess.Popen([sys.executable, str(HERE), "--child", way, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def compute(self, seconds: float) -> dict[str, Any]:
        """What it did in so many seconds."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: the process with {self.way} ended with {self.process.wait()}")
        return dict(json.loads(line))


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


def lost(way: str, couples: int, pairs: int) -> list[float] | None:
    """The share a thread amid 256 others lost in each pair of turns, sorted. None: who samples has ended."""
    shares = []
    for couple in range(couples):
        with Child("nothing", 256) as bare, Child(way, 256) as sampled:
            for child in (bare, sampled):
                child.compute(0.5)
            for pair in range(pairs):
                # The other one first each time.
                order = (bare, sampled) if pair % 2 else (sampled, bare)
                said = {id(child): child.compute(0.25) for child in order}
                if not said[id(sampled)]["alive"]:
                    return None
                shares.append(1 - said[id(sampled)]["turns"] / said[id(bare)]["turns"])
    return sorted(shares)


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
    print(f"{'threads':>8}{'passes/s':>11}{'samples/s':>12}{'CPU %':>8}")
    for threads in (16, 64, 256):
        with Child("dashcam", threads) as sampled:
            said = sampled.compute(2 if quick else 5)
        print(f"{threads:>8}{said['passes']:>11.1f}{said['samples']:>12.0f}{said['cpu']:>8.2f}")
    ways = ["nothing", "dashcam"]
    for way, there in (("py-spy", py_spy()), ("ddtrace", importlib.util.find_spec("ddtrace"))):
        if there:
            ways.append(way)
        else:
            print(f"SKIPPED: {way} (not installed beside {sys.executable})")
    couples, pairs = (4, 8) if quick else (16, 15)
    print(f"lost by a thread that computes amid 256 others, {couples * pairs} pairs of turns:")
    for way in ways:
        shares = lost(way, couples, pairs)
        if shares is None:
            print(f"{way:>10}  SKIPPED: it ended before the measurement did")
            continue
        # The median's interval by ranks: half of the pairs, give or take 1.96 standard deviations of a coin.
        half = len(shares) / 2
        reach = 0.98 * len(shares) ** 0.5
        low, high = shares[max(0, round(half - reach))], shares[min(len(shares) - 1, round(half + reach))]
        print(f"{way:>10}{statistics.median(shares) * 100:>8.1f} %   ({low * 100:.1f} to {high * 100:.1f})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
