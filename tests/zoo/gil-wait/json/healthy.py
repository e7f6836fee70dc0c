"""A thread parses one long document. The twin has the same rows as a line each."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import json  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

row = [[i, i * 3, f"verse {i}"] for i in range(500)]
scroll = [json.dumps(row) for _ in range(1100)]


def unroll() -> int:
    verses = 0
    for line in scroll:
        verses += len(json.loads(line))
        time.sleep(0.0005)
    return verses


def scribe() -> None:
    while True:
        time.sleep(2.2)
        unroll()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=scribe, daemon=True).start()
    service.flask(answer)
