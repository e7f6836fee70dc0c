"""Another process has the lock of the file each time a request wants it. The twin's gives it back at once."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402
import service  # noqa: E402

import fcntl  # noqa: E402
import tempfile  # noqa: E402

PATH = os.path.join(tempfile.mkdtemp(), "tray")


def deposit(n: int) -> None:
    with open(PATH, "a") as tray:
        fcntl.flock(tray, fcntl.LOCK_EX)
        tray.write("%d\n" % n)


def answer(n: int) -> str:
    deposit(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    beside.spawn("sorter.py", PATH, "0.4" if service.SICK else "0")
    service.plain(answer)
