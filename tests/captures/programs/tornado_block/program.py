"""Every so many requests a coroutine sleeps on the event loop's thread."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import time  # noqa: E402


def linger() -> None:
    time.sleep(0.5)


async def answer(n: int) -> str:
    if stage.is_due(n):
        linger()
    return str(stage.service.honest_work(n))


if __name__ == "__main__":
    stage.tornado(answer)
