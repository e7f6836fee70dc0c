"""A request starts threads for its parts and waits for their end; one kind of part dawdles. The twin's
parts do not."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402


def part(n: int) -> None:
    if service.SICK and n % 80 == 40:
        time.sleep(0.4)


def spread(n: int) -> None:
    parts = [threading.Thread(target=part, args=(n,)) for _ in range(3)]
    for one in parts:
        one.start()
    for one in parts:
        one.join()


def answer(n: int) -> str:
    if n % 8 == 0:
        spread(n)
    return str(service.honest_work(n))

if __name__ == "__main__":
    service.plain(answer)
