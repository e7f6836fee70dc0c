"""Requests take one of a service's locks; now and then a checkpoint takes all of them."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import backup  # noqa: E402
from stripes import Held, Stripes  # noqa: E402

stripes = Stripes(8)


def add(n: int, stripe: Held) -> int:
    with stripe:
        return stage.service.honest_work(n)


def answer(n: int) -> str:
    return str(add(n, stripes.of(n)))


if __name__ == "__main__":
    backup.begin(stripes, 0.35 if stage.service.SICK else 0.001)
    stage.waitress(answer)
