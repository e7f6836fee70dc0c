"""A background thread does slow work while it holds the lock that requests need. The twin does the
work first and takes the lock afterwards."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

guard = threading.Lock()
table: dict[int, int] = {}


def compact() -> None:
    time.sleep(0.5)


def janitor() -> None:
    while True:
        time.sleep(1.7)
        if service.SICK:
            with guard:
                compact()
                table.clear()
        else:
            compact()
            with guard:
                table.clear()


def remember(n: int) -> int:
    with guard:
        table[n] = n
        return len(table)


def answer(n: int) -> str:
    return str(service.honest_work(n) + remember(n))


if __name__ == "__main__":
    threading.Thread(target=janitor, name="janitor", daemon=True).start()
    service.plain(answer)
