"""Two things are wrong, in turns: a background thread keeps the lock of all for 0.56 s, and a request's
regular expression backtracks for 0.24 s. One connection, so that each costs one request. The twin
waits outside of the lock, and its expression does not backtrack."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import re  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

guard, ripe = threading.Lock(), threading.Event()
PATTERN = re.compile(r"(a+)+$" if service.SICK else r"a+$")


def compact() -> None:
    time.sleep(0.56)


def janitor() -> None:
    while True:
        time.sleep(1.6)
        if service.SICK:
            with guard:
                compact()
        else:
            compact()
        time.sleep(1.6)
        ripe.set()


def accepts(text: str) -> int:
    end, found = time.monotonic() + (0.24 if service.SICK else 0), 0
    while time.monotonic() < end:
        found += PATTERN.match(text) is not None
    return found


def enter(n: int) -> int:
    with guard:
        return n


def answer(n: int) -> str:
    total = service.honest_work(n) + enter(n)
    if ripe.is_set():
        ripe.clear()
        total += accepts("a" * 16 + "!")
    return str(total)


if __name__ == "__main__":
    threading.Thread(target=janitor, name="janitor", daemon=True).start()
    service.plain(answer)
