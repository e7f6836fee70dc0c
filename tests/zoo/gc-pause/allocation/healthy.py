"""Nobody calls the collector: a rare request keeps so many new objects that it comes by itself,
and walks millions of old ones. The twin has frozen the old ones."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gc  # noqa: E402

import service  # noqa: E402

luggage = [[i] for i in range(5_000_000)]
trunk: list[list[int]] = []


def unpack(n: int) -> int:
    count = 200_000 if n % 80 == 40 else 50
    if n % 80 == 41:
        trunk.clear()
    trunk.extend([k] for k in range(count))
    return len(trunk)


def answer(n: int) -> str:
    return str(service.honest_work(n) + unpack(n))


if __name__ == "__main__":
    gc.freeze()
    gc.collect()
    gc.set_threshold(40_000, 2, 1)
    service.plain(answer)
