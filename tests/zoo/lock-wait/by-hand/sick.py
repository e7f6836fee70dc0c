"""acquire() and release() written out, in different functions. The twin calibrates a copy."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

scale = threading.Lock()
offset = 0


def calibrate() -> int:
    time.sleep(0.45)
    return 1


def inspector() -> None:
    global offset
    while True:
        time.sleep(2.2)
        scale.acquire()
        offset = calibrate()
        scale.release()


def weigh(n: int) -> int:
    scale.acquire()
    grams = n % 50 + offset
    scale.release()
    return grams


def answer(n: int) -> str:
    return str(service.honest_work(n) + weigh(n))


if __name__ == "__main__":
    threading.Thread(target=inspector, daemon=True).start()
    service.reference(answer)
