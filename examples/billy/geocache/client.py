"""The public functions of the library."""

from __future__ import annotations

from dataclasses import dataclass

from geocache import store


@dataclass(frozen=True)
class Place:
    """A country and its tax."""

    country: str
    tax: float


def lookup(address: str) -> Place:
    """The place of an address."""
    country = store.fetch(prefix(address))
    return Place(country, 1.19 if country == "de" else 1.2)


def prefix(address: str) -> str:
    """The first two parts decide the place."""
    return ".".join(address.split(".")[:2])
