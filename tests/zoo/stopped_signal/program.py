"""Something stops the whole process for a while. In the twin nothing does."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import subprocess  # noqa: E402


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    if service.SICK:
        script = f"while sleep 1.8; do kill -STOP {os.getpid()}; sleep 0.5; kill -CONT {os.getpid()} || exit; done"
        subprocess.Popen(["sh", "-c", script])
    service.plain(answer)
