"""The archive of statements."""

from __future__ import annotations

import time


def send(takes_s: float) -> None:
    time.sleep(takes_s)
