"""Entries, which expire; an expired one is refreshed."""

from __future__ import annotations

import os
import threading
import time

from geocache import refresh

_LIFETIME_S = float(os.environ.get("GEOCACHE_LIFETIME_S", "8"))
_entries: dict[str, tuple[str, float]] = {}
_guard = threading.Lock()


def fetch(key: str) -> str:
    """The entry of a key, refreshed when it has expired."""
    now = time.monotonic()
    with _guard:
        country, expires = _entries.get(key, ("de", now + _LIFETIME_S))
        expired = now >= expires
        _entries[key] = (country, now + _LIFETIME_S if expired else expires)
    return refresh.renew(key, country) if expired else country
