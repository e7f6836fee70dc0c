"""A thread that computes for 20 ms every half second."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402


def almanac() -> None:
    while True:
        time.sleep(0.5)
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            pass


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=almanac, daemon=True).start()
    service.reference(answer)
