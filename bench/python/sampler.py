"""The sampler's CPU share with many deep threads, and the time from trigger to file.

Each thread sits 500 frames deep and wakes every 20 ms, so that all of them run between two passes.
Beside it, in the same run: walking all threads' `sys._current_frames()` in Python once."""

from __future__ import annotations

import sys
import tempfile
import threading
import time

import dashcam


def deep(depth: int, stop: threading.Event) -> None:
    """Sits at the bottom of a stack of `depth` frames."""
    if depth:
        deep(depth - 1, stop)
        return
    while not stop.is_set():
        time.sleep(0.02)


def walk() -> float:
    """Microseconds to walk every stack in Python."""
    begin = time.perf_counter()
    for frame in sys._current_frames().values():
        at = frame
        while at is not None:
            _ = (at.f_code.co_name, at.f_code.co_filename, at.f_lineno)
            at = at.f_back  # type: ignore[assignment]
    return (time.perf_counter() - begin) * 1e6


def one(threads: int, seconds: float) -> None:
    """One row."""
    stop = threading.Event()
    running = [threading.Thread(target=deep, args=(500, stop)) for _ in range(threads)]
    for thread in running:
        thread.start()
    time.sleep(1)
    before = dashcam.status()["sampler"]
    time.sleep(seconds)
    after = dashcam.status()["sampler"]
    python_us = walk()
    stop.set()
    for thread in running:
        thread.join()
    passes = after["passes"] - before["passes"]
    cpu_ns, samples = after["cpu_ns"] - before["cpu_ns"], after["samples"] - before["samples"]
    print(f"{threads:>8}{cpu_ns / seconds / 1e7:>12.2f}{passes / seconds:>11.0f}{samples / seconds:>12.0f}"
          f"{cpu_ns / max(passes, 1) / 1e3:>14.0f}{python_us:>22.0f}")


def main() -> None:
    """Prints the table and the snapshot's figures."""
    sys.setrecursionlimit(2000)
    threading.stack_size(16 << 20)
    dashcam.start(service="bench", out=tempfile.mkdtemp(prefix="dashcam-bench-"), slow="1h")
    print(f"{'threads':>8}{'CPU %':>12}{'passes/s':>11}{'samples/s':>12}{'us a pass':>14}"
          f"{'Python walk, us':>22}")
    for threads in (4, 16, 64, 256):
        one(threads, 5.0)
    skipped = dashcam.status()["losses"]["passes_skipped"]
    print(f"passes without samples, to stay in the budget of 1 %: {skipped}")
    for _ in range(1_500_000):
        dashcam.event("fill", key=1)
    times = []
    for _ in range(3):
        path = dashcam.snap("bench")
        times.append(dashcam.status()["sampler"]["last_capture_ns"] / 1e6)
        size = path.stat().st_size / (1 << 20)
        path.unlink()
    print(f"trigger to file: {min(times):.0f} ms for {size:.0f} MiB (of three: "
          + ", ".join(f"{t:.0f}" for t in times) + ")")


if __name__ == "__main__":
    main()
