"""A large process forks now and then, by itself. The twin starts the same program without a copy
of its page tables."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import contextlib  # noqa: E402
import mmap  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402

ballast = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
# With huge pages the tables would be small, and a copy of them quick.
with contextlib.suppress(OSError):
    ballast.madvise(mmap.MADV_NOHUGEPAGE)


def fill() -> None:
    for offset in range(0, len(ballast), 4096):
        ballast[offset] = 1


def launch() -> None:
    if not service.SICK:
        subprocess.run(["/bin/true"], check=False)
        return
    children, end = [], time.monotonic() + 0.4
    while time.monotonic() < end:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def answer(n: int) -> str:
    if n % 90 == 45:
        launch()
    return str(service.honest_work(n))

if __name__ == "__main__":
    fill()
    service.plain(answer)
