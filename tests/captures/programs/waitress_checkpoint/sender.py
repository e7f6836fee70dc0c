"""Sends a checkpoint to where it is kept."""

from __future__ import annotations

import time


def ship(takes_s: float) -> None:
    time.sleep(takes_s)
