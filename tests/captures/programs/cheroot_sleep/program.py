"""Every so many requests one rests."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import time  # noqa: E402


def settle(n: int) -> int:
    if stage.is_due(n):
        time.sleep(0.5)
    return stage.service.honest_work(n)


def answer(n: int) -> str:
    return str(settle(n))


if __name__ == "__main__":
    stage.cheroot(answer)
