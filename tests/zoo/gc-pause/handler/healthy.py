"""A request that tidies up after itself, by hand, with millions of objects alive. The twin leaves
that to the interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gc  # noqa: E402

import service  # noqa: E402

attic = [[i] for i in range(5_000_000)]


def sweep_up(n: int) -> int:
    return 0


def answer(n: int) -> str:
    return str(service.honest_work(n) + sweep_up(n))


if __name__ == "__main__":
    gc.collect()
    service.flask(answer)
