"""The comments of source files: what `check_words.py` reads of code.

How it works: a file's kind (its suffix) has a pattern of tokens in TOKENS: comments, and what may
look like the begin of a comment and is none (strings, characters). `comments` gives a text with as
many lines as the file, each with the comment of that line, without its marker. So a line number
there is a line number of the file, and Markdown in doc comments reads as Markdown.

A kind of file is added as a row of TOKENS. Missing on purpose: no syntax beyond tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# One pattern for each kind of file; only the group "comment" is a comment.
TOKENS = {
    ".rs": re.compile(
        r"(?P<comment>//[^\n]*|/\*.*?\*/)"
        r'|\bb?c?r(?P<hashes>#*)".*?"(?P=hashes)'
        r'|"(?:\\.|[^"\\])*"'
        r"|'(?:\\(?:x..|u\{\w+\}|[^\nux])|[^\\'\n])'",
        re.S,
    ),
}

# What begins or continues a comment, up to its text.
MARKER = re.compile(r"^[ \t]*(?://[/!]?|/?\*+[/!]?)(?: |$)?")

# A line without comment: a phrase that spans lines does not span this.
CODE = "\u00b7"


def of_file(suffix: str, text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each comment."""
    for token in TOKENS[suffix].finditer(text):
        if token["comment"] is not None:
            yield token.start("comment"), token.end("comment")


def comments(suffix: str, text: str) -> str:
    """The comments of a file without markers: as many lines as the file has."""
    lines: dict[int, str] = {}
    for begin, end in of_file(suffix, text):
        first = text.count("\n", 0, begin)
        for number, line in enumerate(text[begin:end].split("\n"), first):
            lines[number] = MARKER.sub("", line, count=1).rstrip()
    count = text.count("\n")
    return "".join(lines.get(number, CODE) + "\n" for number in range(count))


def without_comments(suffix: str, text: str) -> str:
    """The code alone, without empty lines: equal before and after a change of comments."""
    kept, at = [], 0
    for begin, end in of_file(suffix, text):
        kept.append(text[at:begin])
        at = end
    code = "".join(kept) + text[at:]
    return "\n".join(line.rstrip() for line in code.split("\n") if line.strip())
