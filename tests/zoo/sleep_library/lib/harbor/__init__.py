"""A library."""

from harbor.tide import quote

__all__ = ["quote"]
