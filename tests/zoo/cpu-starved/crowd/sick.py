"""Bound to one CPU together with a crowd of other processes that sometimes all compute; an honest
few ms of work takes its turn between theirs. The twin's crowd stays quiet."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402

turns = itertools.count(1)
cpu = min(os.sched_getaffinity(0))
beside.spawn("neighbour.py", cpu, 40, 0.45)
os.sched_setaffinity(0, {cpu})


def grind(amount: int) -> int:
    total = 0
    for k in range(amount):
        total += k * k
    return total


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = str(grind(90_000 + next(turns) % 5)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
