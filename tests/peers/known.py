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


# Decision 0036 lists what a program can still see. A request follows its tasks in a context variable.
_CONTEXT = "lists all variables of a copied context: dashcam_request, in which a request follows its tasks, is there"

KNOWN: "list[Known]" = [
    Known("uvicorn", "tests/test_server.py::test_reset_contextvars_asyncio[h11]", "changed", _CONTEXT),
    Known("uvicorn", "tests/test_server.py::test_reset_contextvars_asyncio[httptools]", "changed", _CONTEXT),
]
