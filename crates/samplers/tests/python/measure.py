"""One pass over 16 threads of 500 frames: the native reader beside sys._current_frames in Python, in turn."""

import statistics
import sys
import threading
import time

import probe

ROUNDS = 40

gate = threading.Lock()
gate.acquire()


def dive(depth):
    if depth > 1:
        return dive(depth - 1)
    gate.acquire()
    gate.release()


def in_python():
    out = []
    for frame in sys._current_frames().values():
        stack = []
        while frame is not None:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        out.append(stack)
    return out


def walked():
    times = []
    for _ in range(10):
        start = time.perf_counter_ns()
        in_python()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def main():
    probe.attach()
    # threading's own three frames belong to the 500.
    threads = [probe.start(dive, 497) for _ in range(16)]
    for thread in threads:
        probe.until(lambda: probe.waiting(thread.native_id), "parked")
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(probe.lib.probe_time_pass(probe.ctypes.c_size_t(50)) / 1000)
        theirs.append(walked())
    ratios = sorted(b / a for a, b in zip(ours, theirs))
    print("16 threads x 500 frames, medians: ours %.0f us, Python %.0f us; %.1f times cheaper (half of the rounds %.1f to %.1f)"
          % (statistics.median(ours), statistics.median(theirs), statistics.median(ratios),
             ratios[ROUNDS // 4], ratios[3 * ROUNDS // 4]))
    gate.release()


main()
