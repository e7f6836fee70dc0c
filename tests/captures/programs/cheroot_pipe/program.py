"""A pipe whose reader pauses: a writer waits until there is room."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import time  # noqa: E402

source, sink = os.pipe()


def drain() -> None:
    while True:
        for _ in range(12):
            os.read(source, 1 << 20)
            time.sleep(0.1)
        time.sleep(0.7 if stage.service.SICK else 0.01)


def note(n: int) -> int:
    return os.write(sink, b"." * 4000)


def answer(n: int) -> str:
    return str(note(n))


if __name__ == "__main__":
    stage.in_background(drain)
    stage.cheroot(answer)
