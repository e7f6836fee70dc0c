"""The work is handed to a pool, and there, rarely, a pause. The twin's has none."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

pool = ThreadPoolExecutor(8)


def polish(n: int) -> int:
    if service.SICK and n % 90 == 45:
        time.sleep(0.5)
    return n


def answer(n: int) -> str:
    return str(pool.submit(polish, n).result())


if __name__ == "__main__":
    service.plain(answer)
