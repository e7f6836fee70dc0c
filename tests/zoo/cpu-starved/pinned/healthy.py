"""Polite (nice 19) and bound to one CPU, which other processes sometimes want for themselves. The
twin's neighbours stay quiet."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import os  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

cpu = min(os.sched_getaffinity(0))
beside.spawn("neighbour.py", cpu, 4, 0)


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    os.nice(19)
    os.sched_setaffinity(0, {cpu})
    service.plain(answer)
