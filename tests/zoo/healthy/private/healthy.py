"""A mutex that one thread holds for seconds and two others want, none of them a request's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

cellar = threading.Lock()
counter = threading.Lock()
served = 0


def stocktake() -> None:
    while True:
        with cellar:
            time.sleep(1.5)
        time.sleep(0.01)


def serve(n: int) -> int:
    global served
    with counter:
        served += 1
        return served


def answer(n: int) -> str:
    return str(service.honest_work(n) + serve(n))


if __name__ == "__main__":
    for _ in range(3):
        threading.Thread(target=stocktake, daemon=True).start()
    service.flask(answer)
