#!/usr/bin/env python3
"""Checks the pages against the tree.

Every relative link leads to a file. Every path of the checkout that a page names in code exists
(globs may match anything). In "`name` in `path`" the file has the name. The page of a decision has
all its parts, also the check that guards the decision, and is in the index. One line for each
finding; exit code 1. Reads only."""

from __future__ import annotations

import glob
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = {"target", "build", "node_modules"}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)
# A name that a page attributes to a file of the checkout.
NAMED = re.compile(r"`(\w+)` in\s+`((?:bench|c|crates|python|tests|tools|viewer)/[\w./-]+\.\w+)`")
DECISIONS = ROOT / "docs" / "decisions"
PARTS = ("Context", "Decision", "Consequences", "Guard")
# The top level of the checkout, so that `a/b` of other projects is ignored.
PATH = re.compile(r"(?:bench|c|crates|docs|examples|fuzz|python|tests|tools|viewer)/[\w./*-]*\w")


def pages() -> list[Path]:
    """The Markdown of the checkout, without build results and downloads."""
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = [name for name in inside if name not in BUILT and not name.startswith(".")]
        found += [page for name in files if name.endswith(".md") and not (page := Path(folder, name)).is_symlink()]
    return sorted(found)


def wrong(page: Path) -> list[str]:
    """Names in a page that the tree does not have."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = [target for target in LINK.findall(text) if "://" not in target]
    found = [f"link to {target}" for target in links if not (page.parent / target).exists()]
    for code in CODE.findall(text):
        path = PATH.fullmatch(code)
        # A room's own page may name files relative to itself.
        if path and not any(glob.glob(str(base / code)) for base in (ROOT, page.parent)):
            found.append(code)
    return found + [f"{name} in {path}" for name, path in NAMED.findall(text) if not has(ROOT / path, name)]


def has(file: Path, name: str) -> bool:
    """Whether a file has a name as a word; True if there is no such file, which is another
    finding.
    """
    return not file.is_file() or re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) is not None


def lacking(text: str) -> list[str]:
    """The missing parts of a decision's page."""
    return [part for part in PARTS if not re.search(rf"^\*\*{part}\b", text, re.M)]


def decisions() -> list[str]:
    """The findings in the pages of decisions."""
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    found = []
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        where = page.relative_to(ROOT)
        found += [f"{where}: has no part **{part}.**" for part in lacking(page.read_text(encoding="utf-8"))]
        if f"({page.name})" not in index:
            found.append(f"{where}: is not in docs/decisions/README.md")
    return found


def main() -> int:
    """Prints findings; 1 if there are any."""
    found = [f"{page.relative_to(ROOT)}: {what} is not there" for page in pages() for what in wrong(page)]
    found += decisions()
    print("\n".join(found) if found else f"docs: {len(pages())} pages name what is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
