"""A re-entrant lock, taken twice by a thread that then rests. The twin rests after giving it
back."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

binder = threading.RLock()
pages = list(range(200))


def dry() -> None:
    time.sleep(0.45)


def glue() -> None:
    with binder:
        pages.reverse()
        dry()


def bookbinder() -> None:
    while True:
        time.sleep(2.2)
        with binder:
            glue()


def leaf_through(n: int) -> int:
    with binder:
        return pages[n % len(pages)]


def answer(n: int) -> str:
    return str(service.honest_work(n) + leaf_through(n))


if __name__ == "__main__":
    threading.Thread(target=bookbinder, daemon=True).start()
    service.flask(answer)
