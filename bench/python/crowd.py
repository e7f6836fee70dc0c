"""The cost of many threads: one pass over deep stacks, and a thread that computes among 256 others.

First table: a pass of the stack reader over 16 threads of 500 frames, beside walking
`sys._current_frames()` in the same process.

Second table: passes per second with 16, 64 and 256 threads, in the first five seconds and, when the
token bucket is empty, later.

Third table: what a thread that computes among 256 others loses to a sampler at 100 Hz: dashcam,
py-spy, ddtrace's profiler. One process computes a short turn with the sampler and one without,
again and again. So neither the place of its memory (some percent between two processes that do the
same) nor a machine whose speed changes is in the figures, which are medians over all such pairs,
with their 95 % interval, of two processes. "kept off": the part of the time in which the thread did
not compute since it was stopped, or waited for the GIL or a CPU, by its CPU clock; other load on
the machine does not blur it. "in all": how much less the thread did, which other load does blur.
dashcam is switched by `dashcam set PID on|off`, so the kernel's switch records remain while it is
off; the others are started and ended, in longer turns. "nothing", where neither turn has a sampler,
shows what the method cannot resolve. A tool that is not installed is SKIPPED.

    python bench/python/crowd.py [--quick] [PROBE]

PROBE: the shared library of `cargo build --release -p dashcam-samplers --example stack_probe`."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
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
    """Sits at the bottom of a stack of `depth` frames; wakes five times a second while it is its
    turn.
    """
    if depth:
        deep(depth - 1, turn, stop)
        return
    while not stop.wait(0.2):
        turn.wait()


def compute(seconds: float) -> tuple[float, float]:
    """How often a loop runs in a second of wall time, and the part of it in which the thread had a
    CPU.
    """
    count = 0
    begin, cpu = time.perf_counter(), time.thread_time()
    end = begin + seconds
    while time.perf_counter() < end:
        for _ in range(1000):
            count += 1
    wall = time.perf_counter() - begin
    return count / wall, (time.thread_time() - cpu) / wall


class Sampler:
    """The sampler of this process, a hundred times a second: "dashcam", "py-spy", "ddtrace"; or
    "nothing".
    """

    def __init__(self, way: str) -> None:
        self.way = way
        self.spy: subprocess.Popen[bytes] | None = None
        self.profiler: Any = None
        self.is_on = False

    def on(self) -> None:
        """Begins, if it has not begun."""
        if self.is_on:
            return
        self.is_on = True
        if self.way == "dashcam":
            import dashcam

            out = tempfile.mkdtemp(prefix="dashcam-bench-")
            dashcam.start(service="crowd", out=out, slow="1h")
        elif self.way == "ddtrace":
            if self.profiler is None:
                from ddtrace.profiling import Profiler

                self.profiler = Profiler()
            self.profiler.start()
        elif self.way == "py-spy":
            import os

            self.spy = subprocess.Popen(
                [py_spy(), "record", "-r", "100", "-d", "600", "-f", "raw", "-o", "/dev/null", "-p", str(os.getpid())],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.7)  # it reads the interpreter's binary first

    def off(self) -> None:
        """Ends, if it has not ended; it may begin again."""
        if not self.is_on:
            return
        self.is_on = False
        if self.way == "dashcam":
            import dashcam

            dashcam.stop()
        elif self.way == "ddtrace":
            self.profiler.stop(flush=False)
        elif self.spy is not None:
            self.spy.terminate()
            self.spy.wait()

    def alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self.spy is None or self.spy.poll() in (None, -signal.SIGTERM)

    def status(self) -> dict[str, int] | None:
        """dashcam's counts."""
        if self.way != "dashcam":
            return None
        import dashcam

        return dict(dashcam.status().get("sampler", {}))


def child(way: str, threads: int) -> None:
    """One process: `threads` deep threads, and one that computes. For each number on stdin it
    computes for that many seconds and prints the result as JSON; "on" and "off" switch the sampler,
    which is on first; it ends with its stdin."""
    stop, turn = threading.Event(), threading.Event()
    threading.stack_size(16 << 20)
    sys.setrecursionlimit(2000)
    running = [threading.Thread(target=deep, args=(50, turn, stop)) for _ in range(threads)]
    for thread in running:
        thread.start()
    sampler = Sampler(way)
    sampler.on()
    time.sleep(1.5)
    for line in sys.stdin:
        if line.strip() in ("on", "off"):
            getattr(sampler, line.strip())()
            print("{}", flush=True)
            continue
        turn.set()
        time.sleep(0.05)  # all of them have woken
        before, begin = sampler.status(), time.perf_counter()
        turns, ran = compute(float(line))
        said: dict[str, Any] = {"turns": turns, "ran": ran}
        after, took = sampler.status(), time.perf_counter() - begin
        turn.clear()
        if before and after:
            said["passes"] = (after["passes"] - before["passes"]) / took
            said["samples"] = (after["samples"] - before["samples"]) / took
            said["cpu"] = (after["cpu_ns"] - before["cpu_ns"]) / took / 1e7
        said["alive"] = sampler.alive()
        print(json.dumps(said), flush=True)
    sampler.off()
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
        """The result of computing for that many seconds."""
        return self.ask(str(seconds))

    def switch(self, state: str) -> None:
        """Switches the sampler "on" or "off"."""
        if self.way == "dashcam":
            tool = Path(sys.executable).with_name("dashcam")
            subprocess.run([tool, "set", str(self.process.pid), state], check=True, stdout=subprocess.DEVNULL)
        else:
            self.ask(state)
        time.sleep(0.06)  # dashcam's sampler checks at this interval whether it is on again

    def ask(self, line: str) -> dict[str, Any]:
        """Its answer to one line."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: the process with {self.way} ended with {self.process.wait()}")
        return dict(json.loads(answer))


def py_spy() -> str:
    """py-spy beside this Python or on PATH; "" if there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or ""


def lost(way: str, pairs: int, seconds: float) -> list[tuple[float, float]] | None:
    """The loss of a thread among 256 others in each pair of turns of that many seconds: the share
    of time it was kept off, and of its work. None: the sampler has ended."""
    shares = []
    with Child(way, 256) as process:
        process.compute(1)
        for pair in range(pairs):
            done = {}
            # the other one first each time
            for state in ("off", "on") if pair % 2 else ("on", "off"):
                process.switch(state)
                said = process.compute(seconds)
                if not said["alive"]:
                    return None
                done[state] = said
            on, off = done["on"], done["off"]
            shares.append((off["ran"] - on["ran"], 1 - on["turns"] / off["turns"]))
    return shares


def reported(shares: list[float]) -> str:
    """Median and its interval by ranks: half of the pairs, plus or minus 1.96 standard deviations
    of a coin.
    """
    shares = sorted(shares)
    half, reach = len(shares) / 2, 0.98 * len(shares) ** 0.5
    low, high = shares[max(0, round(half - reach))], shares[min(len(shares) - 1, round(half + reach))]
    return f"{statistics.median(shares) * 100:>8.2f} % ({low * 100:.2f} to {high * 100:.2f})".ljust(32)


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
    print(f"{'threads':>8}{'passes/s':>11}{'samples/s':>12}{'CPU %':>8}{'later: passes/s':>18}{'samples/s':>12}{'CPU %':>8}")
    for threads in (16, 64, 256):
        with Child("dashcam", threads) as sampled:
            first = sampled.compute(5)
            sampled.compute(7 if quick else 15)
            later = sampled.compute(5)
        figures = [f"{said['passes']:>{wide}.1f}{said['samples']:>12.0f}{said['cpu']:>8.2f}"
                   for said, wide in ((first, 11), (later, 18))]
        print(f"{threads:>8}{''.join(figures)}", flush=True)
    ways = ["nothing", "dashcam"]
    for way, there in (("py-spy", py_spy()), ("ddtrace", importlib.util.find_spec("ddtrace"))):
        if there:
            ways.append(way)
        else:
            print(f"SKIPPED: {way} (not installed beside {sys.executable})")
    print(f"lost by a thread that computes amid 256 others:\n{'':>10}{'kept off':>10}{'':22}{'in all':>10}")
    for way in ways:
        # py-spy may stop the process for a tenth of a second: longer turns, fewer of them.
        short = way in ("nothing", "dashcam")
        plan = (40 if quick else 250, 0.1) if short else (4 if quick else 12, 1.0)
        both = [lost(way, *plan), lost(way, *plan)]
        if None in both:
            print(f"{way:>10}  SKIPPED: it ended before the measurement did")
            continue
        shares = [share for found in both if found for share in found]
        print(f"{way:>10}{reported([s[0] for s in shares])}{reported([s[1] for s in shares])}{len(shares)} pairs", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
