"""One worker without threads: while a request pauses, the others stand in line. The twin does not
pause."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import time  # noqa: E402


def ponder() -> None:
    time.sleep(0.7 if service.SICK else 0)


def answer(n: int) -> str:
    if n % 100 == 50:
        ponder()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.gunicorn(answer, "sync")
