"""Two workers, and now and then two long jobs: what comes next waits in the queue. The twin's jobs
are short."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402

pool = ThreadPoolExecutor(2)


def digest() -> None:
    time.sleep(0.6 if service.SICK else 0.001)


def feeder() -> None:
    while True:
        time.sleep(1.7)
        for _ in range(2):
            pool.submit(digest)


def shade(n: int) -> int:
    return n % 5


def answer(n: int) -> str:
    return str(pool.submit(shade, n).result())


if __name__ == "__main__":
    threading.Thread(target=feeder, name="feeder", daemon=True).start()
    service.plain(answer)
