"""tools/check_docs.py: which names of a page do not exist, and which parts a decision lacks.

Run by tools/lint: python3 -m unittest discover -s tests/tools
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_docs  # noqa: E402

WHOLE = "# 1: x\n\n**Context.** a\n\n**Decision.** b\n\n**Consequences** (measured). c\n\n**Guard.** `d`\n"


class Names(unittest.TestCase):
    def wrong(self, text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(text, encoding="utf-8")
            return check_docs.wrong(page)

    def test_a_path_of_the_checkout_must_be_there(self) -> None:
        self.assertEqual(self.wrong("See `tools/check_docs.py`, `a/b.py` and `tools/*`.\n"), [])
        self.assertEqual(self.wrong("See `tools/check_nothing.py`.\n"), ["tools/check_nothing.py"])

    def test_a_link_must_lead_somewhere(self) -> None:
        self.assertEqual(self.wrong("[a](page.md#part) [b](https://example.org/x)\n"), [])
        self.assertEqual(self.wrong("[a](other.md)\n"), ["link to other.md"])

    def test_a_name_must_be_in_the_file_that_is_said_to_have_it(self) -> None:
        self.assertEqual(self.wrong("See `pages` in `tools/check_docs.py`.\n"), [])
        wrong = self.wrong("See `no_such_name` in\n`tools/check_docs.py`.\n")
        self.assertEqual(wrong, ["no_such_name in tools/check_docs.py"])


class Decisions(unittest.TestCase):
    def test_a_page_with_all_parts_lacks_none(self) -> None:
        self.assertEqual(check_docs.lacking(WHOLE), [])

    def test_a_part_that_is_only_mentioned_is_missing(self) -> None:
        text = WHOLE.replace("**Guard.** `d`", "See the **Guard.** of another page")
        self.assertEqual(check_docs.lacking(text), ["Guard"])


if __name__ == "__main__":
    unittest.main()
