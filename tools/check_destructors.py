#!/usr/bin/env python3
"""Checks that every destructor, and every callback from the collector, of the Python module has a
row in the table of python/src/safe_point.rs, which says what may run there.

The table must not name any other. A slot of a destructor whose function cannot be read from its line
is a finding, too: it would have no row. Reads only."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "python" / "src"
TABLE = SOURCE / "safe_point.rs"
# The slots of a type that CPython calls with an object that ends, and a function behind one.
ENDS = r"\b(?:Py_)?tp_(?:dealloc|finalize|clear|del|free)\b"
NAMED = r", ([a-z]\w*)(?:::<\w+>)? as \*"
# Such a slot, the end of an object whose life is that of `life.rs`, a `Drop`, a method of a class of
# PyO3, a callback from `gc.callbacks`, a capsule's destructor.
FOUND = re.compile(
    ENDS + NAMED
    + r"|^(?:unsafe )?impl(?:<[^>]*>)? ((?:Drop|Life) for \w+)"
    r"|fn (__(?:del|clear)__)\("
    r"|fn (gc_callback)\("
    r"|PyCapsule_New\([^;]*Some\((\w+)\)\)",
    re.MULTILINE,
)
# Reading a slot to call it defines none.
READ = r"if let Some\(\w+\) = \(\*\w+\)\."
UNNAMED = re.compile(rf"^(?!\s*//)(?!.*{READ}).*{ENDS}(?!{NAMED}).*$", re.MULTILINE)
ROW = re.compile(r"^//! \| `(\S+\.rs)` `(?:impl )?([^`]+)`", re.MULTILINE)


def found_in(text: str) -> "set[str]":
    """The destructors in a file."""
    return {next(filter(None, match.groups())) for match in FOUND.finditer(text)}


def findings(files: "dict[str, str]", table: str) -> "list[str]":
    """A line for each, of files by their path below SOURCE, and the text of TABLE."""
    there = {(file, what) for file, text in files.items() for what in found_in(text)}
    rows = set(ROW.findall(table))
    lines = [f"{file}: {what}: a destructor without a row in {TABLE.name}; wanted one that says what it does"
             for file, what in sorted(there - rows)]
    lines += [f"{TABLE.name}: a row for {what} in {file}, where there is none" for file, what in sorted(rows - there)]
    lines += [f"{file}: {line.strip()}: wanted the name of the function behind the slot, `, NAME as *`"
              for file, text in sorted(files.items()) for line in (match[0] for match in UNNAMED.finditer(text))]
    return lines


def main() -> int:
    """Prints findings; 1 if there are any."""
    files = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
             for path in SOURCE.rglob("*.rs") if path != TABLE}
    lines = findings(files, TABLE.read_text(encoding="utf-8"))
    print(*(f"python/src/{line}" for line in lines), sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
