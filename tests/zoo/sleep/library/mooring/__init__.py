"""mooring: ties ships to bollards."""

from __future__ import annotations

from mooring.rope import moor

__all__ = ["moor"]
