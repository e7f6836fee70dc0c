"""Idle workers that rest for seconds, a heartbeat, a queue nobody fills: nothing a request waits
for."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import queue  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

beats = 0
orders: queue.Queue[int] = queue.Queue()


def rest() -> None:
    while True:
        time.sleep(3)


def heartbeat() -> None:
    global beats
    while True:
        time.sleep(0.1)
        beats += 1


def attend() -> None:
    orders.get()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    for work in [rest] * 6 + [heartbeat, attend]:
        threading.Thread(target=work, daemon=True).start()
    service.plain(answer)
