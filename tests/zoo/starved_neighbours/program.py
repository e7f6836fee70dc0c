"""Ten neighbours burn the one CPU that the service may use. The twin has none."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import subprocess  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

BURN = "import time; t = time.time() + 0.8\nwhile time.time() < t: pass"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def neighbours() -> None:
    while True:
        time.sleep(1.6)
        for child in [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(10)]:
            child.wait()


def spin() -> None:
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass


def answer(n: int) -> str:
    spin()
    return str(n)


if __name__ == "__main__":
    if service.SICK:
        threading.Thread(target=neighbours, daemon=True).start()
    service.plain(answer)
