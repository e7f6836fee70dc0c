"""Burns one CPU with several processes: argument 1 is the CPU, 2 how many, 3 the seconds of each
burst (0: never), every 2.5 s. In the session of the program, since the scheduler may share the CPU
between sessions first; in a process group of its own."""

from __future__ import annotations

import os
import sys
import threading
import time


def leave_with_parent() -> None:
    """Ends this process and its likes when the program that started it has gone."""
    sys.stdin.buffer.read()
    os.killpg(0, 9)


def burn(cpu: int, seconds: float) -> None:
    """Bursts for ever, all processes at the same time."""
    os.sched_setaffinity(0, {cpu})
    while True:
        time.sleep(2.5 - time.monotonic() % 2.5)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass


def main() -> None:
    """Becomes several."""
    os.setpgid(0, 0)
    cpu, many, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    for _ in range(many - 1):
        if os.fork() == 0:
            break
    threading.Thread(target=leave_with_parent, daemon=True).start()
    burn(cpu, seconds)


if __name__ == "__main__":
    main()
