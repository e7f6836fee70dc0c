"""How tools/check_docs.py decides which parts a page of a decision lacks.

Run by tools/lint: python3 -m unittest discover -s tests/tools
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_docs  # noqa: E402

WHOLE = "# 1: x\n\n**Context.** a\n\n**Decision.** b\n\n**Consequences** (measured). c\n\n**Guard.** `d`\n"


class Decisions(unittest.TestCase):
    def test_a_page_with_all_parts_lacks_none(self) -> None:
        self.assertEqual(check_docs.lacking(WHOLE), [])

    def test_a_part_that_is_only_mentioned_is_missing(self) -> None:
        text = WHOLE.replace("**Guard.** `d`", "See the **Guard.** of another page")
        self.assertEqual(check_docs.lacking(text), ["Guard"])


if __name__ == "__main__":
    unittest.main()
