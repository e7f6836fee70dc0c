"""A process with 16 threads of 500 frames, sampled by dashcam, by a walk of `sys._current_frames()`
in Python, and from 3.15 on by CPython's own sampling profiler (`profiling.sampling`), in turn.

A *pass* of the profiler and of the walk is one sample of every thread. dashcam's also reads switch
records and the kernel's figures, samples threads that ran since the pass before, and keeps a budget
of 1 % of one core (crates/samplers/tests/python/measure.py times its stacks alone). The profiler
samples at 1 kHz, from another process, and counts the samples that it could not read. *CPU us* is
for a pass."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import dashcam

THREADS, DEPTH = 16, 500


def deep(depth: int, stop: threading.Event) -> None:
    """Sits at the bottom of a stack of `depth` frames, and wakes every 20 ms."""
    if depth:
        deep(depth - 1, stop)
        return
    while not stop.is_set():
        time.sleep(0.02)


def walk() -> float:
    """Microseconds of CPU to walk every stack in Python."""
    begin = time.thread_time()
    for frame in sys._current_frames().values():
        at = frame
        while at is not None:
            _ = (at.f_code.co_name, at.f_code.co_filename, at.f_lineno)
            at = at.f_back  # type: ignore[assignment]
    return (time.thread_time() - begin) * 1e6


def row(name: str, passes: float, cpu_percent: float, us: float, errors: str) -> None:
    """Prints one."""
    print(f"{name:<36}{passes:>10.0f}{cpu_percent:>10.2f}{us:>12.0f}{errors:>12}")


def by_dashcam(seconds: float) -> None:
    """While the program runs: what the sampler's thread does and needs."""
    before = dashcam.status()["sampler"]
    time.sleep(seconds)
    after = dashcam.status()["sampler"]
    cpu_ns, passes = after["cpu_ns"] - before["cpu_ns"], after["passes"] - before["passes"]
    row("dashcam, with all it does in a pass", passes / seconds, cpu_ns / seconds / 1e7, cpu_ns / max(passes, 1) / 1e3, "")


def by_walks(rounds: int) -> None:
    """Walks in the process itself, under the GIL: its threads wait meanwhile."""
    us = statistics.median(walk() for _ in range(rounds))
    row("sys._current_frames(), a walk", 0, 0, us, "")


def by_profiler(seconds: float) -> None:
    """CPython's profiler, attached to this process."""
    words = [sys.executable, "-m", "profiling.sampling", "attach", "--all-threads", "--sampling-rate", "1khz",
             "--duration", f"{seconds:g}", "--no-summary", "--pstats", "-o", os.devnull, str(os.getpid())]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    said = child.stdout.read()
    _, _, used = os.wait4(child.pid, 0)

    def figure(pattern: str) -> float:
        found = re.search(pattern, said)
        return float(found[1].replace(",", "")) if found else float("nan")

    count, rate = figure(r"Captured ([\d,]+) samples"), figure(r"([\d.,]+) samples/sec")
    cpu_s = used.ru_utime + used.ru_stime
    errors = figure(r"[Ee]rror rate: ([\d.]+)")
    row("profiling.sampling, 1 kHz", rate, 100 * cpu_s / seconds, cpu_s / max(count, 1) * 1e6, f"{errors:.1f} %")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each (default 10)")
    seconds = parser.parse_args().seconds
    sys.setrecursionlimit(2000)
    threading.stack_size(16 << 20)
    dashcam.start(service="bench", out=tempfile.mkdtemp(prefix="dashcam-bench-"), slow="1h")
    stop = threading.Event()
    threads = [threading.Thread(target=deep, args=(DEPTH, stop)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    # The sampler's initial budget is used up by then.
    time.sleep(5)
    print(f"CPython {sys.version.split()[0]}, {THREADS} threads of {DEPTH} frames")
    print(f"{'':<36}{'passes/s':>10}{'CPU, %':>10}{'CPU us':>12}{'errors':>12}")
    by_dashcam(seconds)
    by_walks(30)
    if sys.version_info >= (3, 15):
        dashcam.stop()
        by_profiler(seconds)
    else:
        print("profiling.sampling: this CPython has none (3.15 has)")
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
