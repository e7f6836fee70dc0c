"""A rare input makes a regular expression backtrack. The twin's expression does not."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import re  # noqa: E402

PATTERN = re.compile(r"^(a+)+$" if service.SICK else r"^a+$")


def accepts(text: str) -> bool:
    return PATTERN.match(text) is not None


def answer(n: int) -> str:
    return str(accepts("a" * (24 if n % 150 == 70 else 8) + "!"))


if __name__ == "__main__":
    service.plain(answer)
