"""Bollards, on the quay."""

from __future__ import annotations

import time


def fasten(strands: int, slack: float) -> int:
    """Puts the rope around the bollard and lets it settle."""
    if slack:
        time.sleep(slack)
    return strands % 17
