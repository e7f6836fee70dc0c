"""Faults that the program is not to see: kept for `status()`, never raised, never printed."""

from __future__ import annotations

MOST = 100
_notices: list[str] = []


def notice(text: str) -> None:
    """Keeps a notice; those after the first `MOST` are dropped."""
    if len(_notices) < MOST:
        _notices.append(text)


def notices() -> list[str]:
    """The notices, oldest first."""
    return list(_notices)
