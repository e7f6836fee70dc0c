"""Runs a program and waits for its end. In the twin the program has nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import subprocess  # noqa: E402

import service  # noqa: E402

PATIENCE = "0.5"


def engrave(wait: str) -> None:
    subprocess.run(["sleep", wait], check=True)


def answer(n: int) -> str:
    if n % 80 == 40:
        engrave(PATIENCE)
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
