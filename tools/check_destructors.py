#!/usr/bin/env python3
"""Checks that every destructor, and every callback from the collector, of the Python module has a
row in the table of python/src/safe_point.rs, which says what may run there.

The table must not name any other. Reads only."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "python" / "src"
TABLE = SOURCE / "safe_point.rs"
# A slot of a type whose layout is written by hand, a `Drop`, a callback from `gc.callbacks`, a
# capsule's destructor.
FOUND = re.compile(
    r"Py_tp_(?:dealloc|finalize|clear|del|free), (\w+)"
    r"|^impl(?:<[^>]*>)? (Drop for \w+)"
    r"|fn (gc_callback)\("
    r"|PyCapsule_New\([^;]*Some\((\w+)\)\)",
    re.MULTILINE,
)
ROW = re.compile(r"^//! \| `(\S+\.rs)` `(?:impl )?([^`]+)`", re.MULTILINE)


def found_in(path: Path) -> "set[tuple[str, str]]":
    """(file, what) of each destructor in a file."""
    names = (next(filter(None, match.groups())) for match in FOUND.finditer(path.read_text(encoding="utf-8")))
    return {(path.relative_to(SOURCE).as_posix(), name) for name in names}


def main() -> int:
    """Prints findings; 1 if there are any."""
    there = set().union(*(found_in(path) for path in SOURCE.rglob("*.rs") if path != TABLE))
    rows = set(ROW.findall(TABLE.read_text(encoding="utf-8")))
    for file, what in sorted(there - rows):
        print(f"python/src/{file}: {what}: a destructor without a row in {TABLE.name}; wanted one that says what it does")
    for file, what in sorted(rows - there):
        print(f"python/src/{TABLE.name}: a row for {what} in {file}, where there is none")
    return 1 if there != rows else 0


if __name__ == "__main__":
    sys.exit(main())
