"""geocache: the country of an address and its tax. A library, not part of Billy."""

from __future__ import annotations

from geocache.client import Place, lookup

__all__ = ["Place", "lookup"]
