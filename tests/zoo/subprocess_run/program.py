"""A child process that takes its time. The twin's does not."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import subprocess  # noqa: E402


def convert(n: int) -> None:
    subprocess.run(["sleep", "0.5" if service.SICK else "0.001"], check=True)


def answer(n: int) -> str:
    if n % 90 == 45:
        convert(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
