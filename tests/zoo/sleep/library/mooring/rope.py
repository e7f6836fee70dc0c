"""Ropes, from the ship's side."""

from __future__ import annotations

from mooring import bollard


def moor(ship: str, n: int, slack: float) -> str:
    """Ties a ship up."""
    return f"{ship} at {splice(n, slack)}"


def splice(n: int, slack: float) -> int:
    """Joins two ropes."""
    strands = sum(i * i % 7 for i in range(2000))
    return bollard.fasten(strands, slack if n % 40 == 20 else 0.0)
