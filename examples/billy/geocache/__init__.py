"""geocache: where is an address, and what does that mean. A library, not part of Billy."""

from __future__ import annotations

from geocache.client import Place, lookup

__all__ = ["Place", "lookup"]
