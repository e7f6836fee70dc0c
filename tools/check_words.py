#!/usr/bin/env python3
"""Holds the prose of the pages: no word of WORDS as a term, no line over COLUMNS.

How it works: code, addresses and link targets of a page are blanked out, then each pattern is
searched in what remains; a phrase may span two lines. Lines of tables, code and addresses may be
long. One line for each finding, with the word to write instead; exit code 1. Reads only.

Missing on purpose: whether a sentence is good. The list holds words that made pages hard to read,
not a grammar.
"""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from check_docs import ROOT, pages

COLUMNS = 120

# Compared with what the code generates, by a test: its descriptions are one line each.
GENERATED = {"docs/tables.md"}

# What a determiner or preposition before makes a noun of.
NOUN = r"\b(?:an?|the|this|these|those|each|every|one|two|no|few|many|last|next|first|of|by|per|between|its|their) "


class Word(NamedTuple):
    """A word or phrase that is no term of ours."""

    pattern: re.Pattern[str]
    instead: str


def word(pattern: str, instead: str, flags: int = re.I) -> Word:
    """Compiles a pattern; a space in it matches any white space, so that a phrase may span lines."""
    return Word(re.compile(pattern.replace(" ", r"\s+"), flags | re.M), instead)


WORDS = [
    word(NOUN + r"looks?\b(?! like\b)", "sample"),
    word(r"\blook(?:ed|s|ing)? at (?:a |the |each |every )?(?:thread|stack|task|greenlet)s?\b", "sample"),
    word(r"\b(?:tell|tells|told|telling|untold)\b", "record, report, show, name"),
    # In a question these are plain English.
    word(r"\b(?:Who|Whom|Whose|Whoever|Whomever)\b(?![^.!|#]*\?)", "the thread, the holder, the waker", re.NOFLAG),
    word(r"^#.*\b(?:who|whom|whose|whoever)\b(?!.*\?)", "a noun"),
    word(r"\b(?:of|from|by|than|to) (?:who|whoever)\b|\bwhom\b", "a noun"),
    word(r"\b(?:stand|stands|stood|standing)\b(?!-)", "wait, block, be"),
    word(r"\b(?:keeper|taker|giver|looker|teller)s?\b|\bregulars\b", "holder, waker, writer"),
    word(r"\b(?:an?|the|each|every|its|their|this|these|last|of) stays?\b", "interval"),
    word(r"\bpieces?\b", "interval, slice, part"),
    word(r"\b(?:a|the|its|their|thread's|request's) course\b(?! of\b)", "timeline"),
    word(r"\b(?:purses?|savings)\b", "token bucket, budget, burst"),
    word(r"\bstorms?\b", "burst of thread creation"),
    word(r"\b(?:mend|mends|mended|mending)\b", "fix"),
    word(r"\bout of\b(?! (?:bounds|memory|order|range|reach|room|scope|service|space|sync|the way)\b)", "from"),
    word(r"\b(?:himself|herself)\b", "itself"),
    word(r"\b(?:dear|dearer|dearest)\b", "expensive"),
    word(r"\breckon(?:s|ed|ing)?\b", "calculate, count"),
    word(r"\bthat one(?=[,.;:)]| (?:did|does|had|has|is|was)\b)", "the noun"),
]

BLANKED = [
    re.compile(r"^( *)```.*?^\1```$", re.S | re.M),
    # A block of code by its indent, behind an empty line; a list's second paragraph looks the same.
    re.compile(r"(?<=\n\n)(?:(?: {4}|\t).*\n(?:\n(?= {4}))?)+"),
    re.compile(r"`[^`\n]+(?:\n[^`\n]+)?`"),
    # The name of a table or the like.
    re.compile(r"^#+ [a-z_]+$", re.M),
    re.compile(r"(?<=\]\()[^)]*(?=\))"),
    re.compile(r"https?://[^\s)>]+"),
]


def prose(text: str) -> str:
    """The text with everything that is no prose blanked out: as long as before, with the same lines."""
    for pattern in BLANKED:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    return text


def banned(text: str) -> list[tuple[int, str]]:
    """Line number and finding for each banned word of a page."""
    plain = prose(text)
    found = []
    for entry in WORDS:
        for match in entry.pattern.finditer(plain):
            last = " ".join(match[0].split())
            # The word is at the end of what matched.
            found.append((plain.count("\n", 0, match.end()) + 1, f'"{last}": write {entry.instead}'))
    return sorted(found)


def too_long(text: str) -> list[tuple[int, str]]:
    """Line number and finding for each line of prose over COLUMNS; what was blanked out counts as nothing at the
    end of a link only, since a link cannot be broken."""
    found = []
    for number, (line, plain) in enumerate(zip(text.splitlines(), prose(text).splitlines()), 1):
        is_code = line.strip() and not plain.strip("_ ")
        width = len(re.sub(r"\]\(_*\)", "]", plain))
        if width > COLUMNS and not is_code and not line.lstrip().startswith("|") and "://" not in line:
            found.append((number, f"{width} columns, at most {COLUMNS}"))
    return found


def wrong(page: str, text: str) -> list[tuple[int, str]]:
    """Everything that is wrong with a page."""
    return sorted(banned(text) + ([] if page in GENERATED else too_long(text)))


def main() -> int:
    """Prints what is wrong; 1 if something is."""
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
    findings = [f"{page}:{number}: {what}" for page, text in texts.items() for number, what in wrong(page, text)]
    print("\n".join(findings) if findings else f"words: {len(texts)} pages are clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
