"""Renewing an entry from the upstream, politely."""

from __future__ import annotations

import time

ATTEMPTS = 2
PAUSE_S = 1.0


def renew(key: str, known: str) -> str:
    """Asks upstream; keeps what is known when it does not answer."""
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
    """Gives the upstream a moment."""
    time.sleep(PAUSE_S * (attempt + 1))
