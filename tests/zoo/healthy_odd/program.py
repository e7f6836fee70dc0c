"""Odd but healthy: idle workers that sleep for seconds, a lock held that nobody needs, a thread that
computes for 20 ms every second, a queue that is waited on for ever. Both twins are the same."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import queue  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

private = threading.Lock()


def idle() -> None:
    while True:
        time.sleep(3)


def hoard() -> None:
    with private:
        time.sleep(3600)


def cron() -> None:
    while True:
        time.sleep(1)
        end = time.perf_counter() + 0.02
        while time.perf_counter() < end:
            pass


def waiter() -> None:
    queue.Queue().get()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    for work in [idle] * 5 + [hoard, cron, waiter]:
        threading.Thread(target=work, daemon=True).start()
    service.plain(answer)
