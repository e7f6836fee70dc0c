"""A thread matches a pattern that tries every way there is. The twin's pattern has one way."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import re  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

grain = re.compile(r"(a+)+$")


def sift() -> bool:
    return grain.match("a" * 24 + "!") is not None


def miller() -> None:
    while True:
        time.sleep(2.4)
        sift()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=miller, daemon=True).start()
    service.plain(answer)
