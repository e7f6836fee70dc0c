"""A child was forked, so every page that the parent writes is copied. In the twin there is no child."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import contextlib  # noqa: E402
import mmap  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

sheet = mmap.mmap(-1, 400 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with contextlib.suppress(OSError):
    sheet.madvise(mmap.MADV_NOHUGEPAGE)


def mark(stop: int) -> None:
    for offset in range(0, stop, 4096):
        sheet[offset] ^= 1


def saver() -> None:
    while True:
        time.sleep(0.3)
        if service.SICK:
            pid = os.fork()
            if pid == 0:
                time.sleep(1.0)
                os._exit(0)
            os.waitpid(pid, 0)


def answer(n: int) -> str:
    if n % 60 == 30:
        mark(len(sheet) if service.SICK else len(sheet) // 8)
    return str(service.honest_work(n))

if __name__ == "__main__":
    mark(len(sheet))
    threading.Thread(target=saver, name="saver", daemon=True).start()
    service.plain(answer)
