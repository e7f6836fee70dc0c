"""Every so many requests a coroutine computes for long on the event loop."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402


def total(until: int) -> int:
    found = 0
    for step in range(until):
        found += step * step
    return found


async def answer(n: int) -> str:
    return str(total(9_000_000 if stage.is_due(n) else 500))


if __name__ == "__main__":
    stage.hypercorn(answer)
