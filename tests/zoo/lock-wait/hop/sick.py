"""Two hops: requests wait for the chart, which the pilot holds, who waits for tea, which the
brewer holds, who rests. In the twin the pilot has his tea before he takes the chart."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

chart = threading.Lock()
tea = threading.Lock()
course = 0


def steep() -> None:
    time.sleep(0.45)


def brewer() -> None:
    while True:
        time.sleep(2.0)
        with tea:
            steep()


def sail() -> None:
    global course
    with chart:
        with tea:
            course += 1


def pilot() -> None:
    while True:
        time.sleep(0.05)
        sail()


def read_chart(n: int) -> int:
    with chart:
        return n + course


def answer(n: int) -> str:
    return str(service.honest_work(n) + read_chart(n))


if __name__ == "__main__":
    for work in (brewer, pilot):
        threading.Thread(target=work, daemon=True).start()
    service.plain(answer)
