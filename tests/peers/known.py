"""Differences that are known: which test of which suite, what is seen, and why.

An entry silences exactly one difference. `changed`: recording changes it, for the reason given.
`unsteady`: it differs bare, too, but so seldom that a run may not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Known:
    """One known difference."""

    project: str
    test: str
    seen: Literal["changed", "unsteady"]
    why: str


KNOWN: "list[Known]" = []
