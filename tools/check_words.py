#!/usr/bin/env python3
"""Holds the prose of pages and of comments in code: no word of WORDS as a term, no line too long.

How it works: code, addresses and link targets are blanked out, then each pattern is searched in
what remains; a phrase may span two lines. The comments of a source file are read as a page
(`code_comments.py`), and so are the names of its tests: `a_told_word` is "a told word". Of every
other name in code each word is compared with NAMES: `last_told_ns`, `Told`. Lines of tables, code
and addresses may be long on a page; a comment's line may not, unless it has an address. One line for each finding, with the word to write instead; exit code 1. Reads only.

Missing on purpose: whether a sentence is good. The list holds words that made prose hard to read,
not a grammar.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import PurePath
from typing import NamedTuple

import code_comments
from check_docs import ROOT, pages
from import_cycles import NO_CODE

COLUMNS = 120
COMMENT_COLUMNS = 100

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
    word(NOUN + r"looks?\b(?!-| like\b)", "sample"),
    word(r"\blook(?:ed|s|ing)? at (?:a |the |each |every )?(?:thread|stack|task|greenlet)s?\b", "sample"),
    word(r"\b(?:tell|tells|told|telling|untold)\b", "record, report, show, name"),
    # In a question these are plain English.
    word(r"\b(?:Who|Whom|Whose|Whoever|Whomever)\b(?![^.!|#]*\?)", "the thread, the holder, the waker", re.NOFLAG),
    word(r"^#.*\b(?:who|whom|whose|whoever)\b(?!.*\?)", "a noun"),
    word(r"\b(?:of|from|by|than|to) (?:who|whoever)\b|\bwhom\b", "a noun"),
    # As a subject: "Release: who sees the flag sees the words".
    word(r"[:;] (?:who|whoever)\b(?![^.!|#]*\?)", "a noun"),
    word(r"\b(?:stand|stands|stood|standing)\b(?!-| for\b| in for\b)", "wait, block, be"),
    word(r"\b(?:keeper|taker|giver|looker|teller)s?\b|\bregulars\b", "holder, waker, writer"),
    word(r"\b(?:an?|the|each|every|its|their|this|these|last|of) stays?\b", "interval"),
    word(r"\bpieces?\b", "interval, slice, part"),
    word(r"\b(?:a|the|its|their|thread's|request's) course\b(?! of\b)", "timeline"),
    word(r"\b(?:purses?|savings)\b", "token bucket, budget, burst"),
    word(r"\bstorms?\b", "burst of thread creation"),
    word(r"\b(?:mend|mends|mended|mending)\b", "fix"),
    word(r"(?<!left\s)\bout of\b(?! (?:bounds|memory|order|range|reach|room|scope|service|space|sync|the way)\b)", "from"),
    word(r"\b(?:himself|herself)\b", "itself"),
    word(r"\b(?:dear|dearer|dearest)\b", "expensive"),
    word(r"\breckon(?:s|ed|ing)?\b", "calculate, count"),
    word(r"\bthat one(?=[,.;:)]| (?:did|does|had|has|is|was)\b)", "the noun"),
]

# Nor are names of code made of these words. Of `look` and `stand` only the nouns are meant, which
# a name shows where the word is a type or the last one.
NAMES = [
    (re.compile(r"tells?|told|telling|untold"), "report, record, show"),
    (re.compile(r"whom|who"), "the thread, the holder, the waker"),
    (re.compile(r"(?:keeper|taker|giver|looker|teller)s?|regulars"), "holder, waker, writer"),
    (re.compile(r"Looks?|looks|stood"), "sample, wait"),
    (re.compile(r"pieces?"), "interval, slice, part, extent"),
    (re.compile(r"purses?|savings"), "token bucket, budget, burst"),
    (re.compile(r"storms?"), "burst"),
    (re.compile(r"mend(?:s|ed|ing)?"), "fix, add what is missing"),
    (re.compile(r"dear(?:er|est)?|reckon(?:s|ed|ing)?"), "expensive, calculate"),
]

# Names that users know, and functions of others.
KNOWN_NAMES = {"pieces", "switches_mended", "tell"}

# A name with as many words is a sentence, that of a test: it is read as prose.
SENTENCE = 5

NAME = re.compile(r"[A-Za-z_]\w*")
WORD_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# What is no code: strings and comments.
NO_NAMES = {
    ".rs": NO_CODE,
    ".ts": NO_CODE,
    ".py": re.compile(r"#[^\n]*|(?<!\w)[rbfuRBFU]*(?:\"\"\".*?\"\"\"|\'\'\'.*?\'\'\')|\"(?:\\.|[^\"\\\n])*\"|\'(?:\\.|[^\'\\\n])*\'", re.S),
}

# A test function, by the line above it.
TEST = re.compile(r"#\[test\]\s+(?:#\[[^\n]*\]\s+)*(?:unsafe )?fn (?P<name>\w+)")

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


def wrong_in_code(file: str, text: str) -> list[tuple[int, str]]:
    """Everything that is wrong with the names in a source file, with its comments and with the names of its tests."""
    suffix = PurePath(file).suffix
    found = banned_in_code(file, text)
    if suffix not in code_comments.TOKENS:
        return sorted(found)
    comments = code_comments.comments(suffix, text)
    found += banned(comments) + banned_in_names(file, text)
    for number, (line, comment) in enumerate(zip(text.splitlines(), comments.splitlines()), 1):
        if comment != code_comments.CODE and len(line) > COMMENT_COLUMNS and "://" not in comment:
            found.append((number, f"comment: {len(line)} columns, at most {COMMENT_COLUMNS}"))
    return sorted(found)


def banned_in_names(file: str, text: str) -> list[tuple[int, str]]:
    """Line number and finding for each banned word in the name of a test, or of a file of tests."""
    names = [(text.count("\n", 0, match.start("name")) + 1, match["name"]) for match in TEST.finditer(text)]
    if "tests" in PurePath(file).parts:
        names.append((1, PurePath(file).stem))
    # A name has no capitals, so its first word is given one: "Who" is found there as in a sentence.
    return [
        (number, f"{name}: {what}")
        for number, name in names
        for _, what in banned(name.replace("_", " ").capitalize() + "\n")
    ]


def banned_in_code(file: str, text: str) -> list[tuple[int, str]]:
    """Line number and finding for each name in code with one of the words in it."""
    suffix = PurePath(file).suffix
    if suffix not in NO_NAMES:
        return []
    code = NO_NAMES[suffix].sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found: dict[str, tuple[int, str]] = {}
    for match in NAME.finditer(code):
        name = match[0]
        if name in found or name in KNOWN_NAMES:
            continue
        words = WORD_OF_NAME.findall(name)
        instead = [better for word in words for better in better_than(word)] if len(words) < SENTENCE else []
        if instead:
            found[name] = (code.count("\n", 0, match.start()) + 1, f"{name}: write {instead[0]}")
    return list(found.values())


def better_than(word: str) -> list[str]:
    """What to write instead of a word of a name; nothing where it is a good one."""
    forms = {word, word.lower()}
    return [instead for pattern, instead in NAMES if any(pattern.fullmatch(form) for form in forms)]


def sources() -> list[str]:
    """The source files of the checkout whose names or comments can be read, from its top."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.splitlines() if PurePath(file).suffix in NO_NAMES]


def main() -> int:
    """Prints what is wrong; 1 if something is."""
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
    findings = [f"{page}:{number}: {what}" for page, text in texts.items() for number, what in wrong(page, text)]
    # A file that is listed and gone is about to be renamed.
    files = {file: (ROOT / file).read_text(encoding="utf-8") for file in sources() if (ROOT / file).exists()}
    findings += [f"{file}:{number}: {what}" for file, text in files.items() for number, what in wrong_in_code(file, text)]
    print("\n".join(findings) if findings else f"words: {len(texts)} pages and {len(files)} source files are clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
