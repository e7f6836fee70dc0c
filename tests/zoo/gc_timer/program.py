"""Millions of live objects and a thread that collects. The twin has frozen them."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import gc  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

keep = [[i] for i in range(4_000_000)]


def sweep() -> None:
    gc.collect()


def sweep_now_and_then() -> None:
    while True:
        time.sleep(1.6)
        sweep()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    if not service.SICK:
        gc.freeze()
    threading.Thread(target=sweep_now_and_then, name="sweep", daemon=True).start()
    service.plain(answer)
