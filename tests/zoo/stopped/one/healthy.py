"""Another process halts this one for a while. In the twin nothing does."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import os  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.flask(answer)
