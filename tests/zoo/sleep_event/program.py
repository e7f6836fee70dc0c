"""An event that nobody sets is waited for with a time limit: a pause by another name. The twin does
not wait."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402


def settle() -> None:
    threading.Event().wait(0.5 if service.SICK else 0)


def answer(n: int) -> str:
    if n % 90 == 45:
        settle()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
