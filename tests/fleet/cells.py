"""Answers compared cell by cell.

How it works: an answer is taken apart into its values, each with the way to it. Texts, times and
integers have to be equal; floating-point numbers may differ in their last digits, since engines add
them up in another order.
"""

from __future__ import annotations

import math
from typing import Any

RELATIVE = 1e-9
Cells = dict[tuple[Any, ...], Any]


def cells(value: Any, at: tuple[Any, ...] = ()) -> Cells:
    """Each value in an answer, by the way to it."""
    if isinstance(value, dict):
        return {at + (None,): "{}"} | {key: one for name in value for key, one in cells(value[name], (*at, name)).items()}
    if isinstance(value, (list, tuple)):
        return {at + (None,): len(value)} | {key: one for nth, item in enumerate(value) for key, one in cells(item, (*at, nth)).items()}
    return {at: value}


def differing(found: Any, wanted: Any) -> tuple[int, list[str]]:
    """How many cells were compared, and those that differ."""
    own, other = cells(found), cells(wanted)
    wrong = [f"{at}: only in one" for at in own.keys() ^ other.keys()]
    wrong += [f"{at}: found {own[at]!r}, wanted {other[at]!r}" for at in own.keys() & other.keys() if not _is_same(own[at], other[at])]
    return len(other), sorted(wrong)


def _is_same(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=RELATIVE, abs_tol=1e-6) or (math.isnan(found) and math.isnan(wanted))
    return type(found) is type(wanted) and bool(found == wanted)
