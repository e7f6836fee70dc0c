"""A wait that no rule knows (for a signal): the time must be told as unexplained, with its place."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import ctypes  # noqa: E402

libc = ctypes.CDLL(None)


def rest() -> None:
    """Waits for a signal that does not come, at most half a second: no rule knows this call."""
    none, limit = (ctypes.c_char * 128)(), (ctypes.c_long * 2)(0, 500_000_000)
    libc.sigtimedwait(none, None, limit)


def answer(n: int) -> str:
    if service.SICK and n % 90 == 45:
        rest()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
