"""Nobody holds it for long, but two dozen come at once, and requests stand in the same queue. In
the twin the crowd has a turnstile of its own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

turnstile = threading.Lock()
side_gate = threading.Lock()


def notch() -> None:
    time.sleep(0.025)


def visitor() -> None:
    with side_gate:
        notch()


def excursion() -> None:
    while True:
        time.sleep(2.4)
        crowd = [threading.Thread(target=visitor) for _ in range(24)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()


def stamp(n: int) -> int:
    with turnstile:
        return n * 31 % 1009


def answer(n: int) -> str:
    return str(service.honest_work(n) + stamp(n))


if __name__ == "__main__":
    threading.Thread(target=excursion, daemon=True).start()
    service.plain(answer)
