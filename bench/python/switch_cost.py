"""What the kernel adds to a context switch for switch records, in parts: two processes on one CPU hand
a byte to and fro, and each hand-over is one switch. CPU time of both, the best of many short blocks;
the parts take turns.

    nothing           no process of the machine has a perf event of a thread: else as the next
    another records   the scheduler's hooks for perf events are on; this thread has no event
    an event          both have an event that counts and records nothing: it is moved at each switch
    recorded          the event writes its two records, out and in, as dashcam's do

`python bench/python/switch_cost.py`. Linux on x86-64 or aarch64."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import time
from typing import Callable

ROUNDS, BLOCKS, TURNS = 5, 100, 100
CALL = {"x86_64": 298, "aarch64": 241}
SET_OUTPUT, RING_PAGES = 0x2405, 16
#: Bits of perf_event_attr's flag word; crates/sys/src/perf/attr.rs.
DISABLED, EXCLUDE_KERNEL, EXCLUDE_HV, ID_ALL, USE_CLOCK, SWITCH = 1 << 0, 1 << 5, 1 << 6, 1 << 18, 1 << 25, 1 << 26
libc = ctypes.CDLL(None, use_errno=True)


def event(tid: int, cpu: int, flags: int) -> int:
    """A dummy event of a thread on a CPU."""
    tid_and_time, dummy, software = 6, 9, 1
    flags |= EXCLUDE_KERNEL | EXCLUDE_HV | ID_ALL | USE_CLOCK
    attr = struct.pack("<IIQQQQQ", software, 96, dummy, 0, tid_and_time, 0, flags)
    attr = attr.ljust(92, b"\0") + struct.pack("<i", time.CLOCK_MONOTONIC)
    found: int = libc.syscall(CALL[platform.machine()], attr, tid, cpu, -1, 8)
    if found < 0:
        raise SystemExit(f"SKIPPED: switch cost (perf_event_open: {os.strerror(ctypes.get_errno())})")
    return found


class Rings:
    """A ring for each CPU, into which events of threads write."""

    def __init__(self) -> None:
        self.holders = [event(0, cpu, DISABLED) for cpu in range(os.cpu_count() or 1)]
        self.maps = [mmap.mmap(fd, (1 + RING_PAGES) * mmap.PAGESIZE) for fd in self.holders]

    def attach(self, pid: int, flags: int) -> list[int]:
        """Events of a process; they last as long as their descriptors are open."""
        events = [event(pid, cpu, flags) for cpu in range(len(self.holders))]
        for fd, holder in zip(events, self.holders):
            libc.ioctl(fd, SET_OUTPUT, holder)
        return events

    def empty(self) -> None:
        """Gives all space back."""
        for ring in self.maps:
            ring[1032:1040] = ring[1024:1032]


def children() -> bool:
    """Waits for a child to end; whether there was one."""
    try:
        return os.wait()[0] > 0
    except ChildProcessError:
        return False


def measured(prepare: Callable[[Rings, int], list[int]]) -> float:
    """ns of CPU a switch. `prepare` gets the other process, and returns what is to be closed."""
    (to, at), (back, fro) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(at)
        os.close(back)
        while os.read(to, 1):
            os.write(fro, b"x")
        os._exit(0)
    os.close(to)
    os.close(fro)
    rings = Rings()
    opened, best = prepare(rings, pid), float("inf")
    clock = ~pid << 3 | 2  # CPU time of the other process
    for _ in range(BLOCKS):
        before = time.process_time_ns() + time.clock_gettime_ns(clock)
        for _ in range(TURNS):
            os.write(at, b"x")
            os.read(back, 1)
        best = min(best, time.process_time_ns() + time.clock_gettime_ns(clock) - before)
        rings.empty()
    for fd in [*opened, *rings.holders, at, back]:
        os.close(fd)
    while children():
        pass
    return best / TURNS / 2


def with_events(flags: int) -> Callable[[Rings, int], list[int]]:
    """Both processes have an event."""
    return lambda rings, pid: rings.attach(0, flags) + rings.attach(pid, flags)


def another_records(rings: Rings, _pid: int) -> list[int]:
    """Only a third process has one; it ends when its pipe is closed."""
    end, begin = os.pipe()
    third = os.fork()
    if third == 0:
        os.close(begin)
        os.read(end, 1)
        os._exit(0)
    os.close(end)
    return [*rings.attach(third, SWITCH), begin]


def main() -> None:
    """A row for each part."""
    os.sched_setaffinity(0, {0})
    rows = {"nothing": lambda rings, pid: [], "another records": another_records,
            "an event": with_events(0), "recorded": with_events(SWITCH)}
    best = {name: float("inf") for name in rows}
    for _ in range(ROUNDS):
        for name, prepare in rows.items():
            best[name] = min(best[name], measured(prepare))
    print(f"{'ns of CPU a switch':24}{'all':>8}{'added':>8}")
    last = best["nothing"]
    for name, found in best.items():
        print(f"{name:24}{found:8.0f}{found - last:8.0f}")
        last = found


if __name__ == "__main__":
    main()
