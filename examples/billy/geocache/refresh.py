"""Renews an entry from the upstream service, with pauses between tries."""

from __future__ import annotations

import time

ATTEMPTS = 2
PAUSE_S = 1.0


def renew(key: str, known: str) -> str:
    """Asks the upstream; keeps the known value if it does not answer."""
    for attempt in range(ATTEMPTS):
        answer = ask(key, attempt)
        if answer is not None:
            return answer
        backoff(attempt)
    return known


def ask(key: str, attempt: int) -> str | None:
    """The upstream is busy at first and answers the second time."""
    return None if attempt == 0 else "de"


def backoff(attempt: int) -> None:
    """Pauses before the next try."""
    time.sleep(PAUSE_S * (attempt + 1))
