"""How tools/check_words.py decides: what is prose, which words are found, which lines are too long.

Run by tools/lint: python3 -m unittest discover -s tests/tools
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_words  # noqa: E402


def found(text: str) -> list[str]:
    """The words found in a page, without the advice."""
    return [what.split('"')[1] for _, what in check_words.banned(text)]


class Prose(unittest.TestCase):
    def test_code_addresses_and_link_targets_are_no_prose(self) -> None:
        for text in (
            "The thread `dashcam-keeper` writes it.\n",
            "See [wakers](docs/who-told-it.md).\n",
            "See https://example.org/told for more.\n",
            "```text\nWho told it\n```\n",
            "   ```text\n   Who told it\n   ```\n",
            "```sh\necho `date`; told; `\n\nstood\n```\n",
            "### pieces\n",
            "Run it:\n\n    dashcam told\n\n    dashcam stood\n\nDone.\n",
        ):
            self.assertEqual(found(text), [], text)

    def test_what_is_blanked_keeps_its_lines_and_its_length(self) -> None:
        text = "a `b` c\n\n```rust\nlook\n```\n[d](e.md)\n"
        plain = check_words.prose(text)
        self.assertEqual((len(plain), plain.count("\n")), (len(text), text.count("\n")))

    def test_a_line_that_continues_a_list_is_prose(self) -> None:
        self.assertEqual(found("- One line\n    that was told.\n"), ["told"])


class Words(unittest.TestCase):
    def test_a_look_is_a_sample_but_to_look_is_plain_english(self) -> None:
        self.assertEqual(found("Each look costs 20 us; two looks agree.\n"), ["Each look", "two looks"])
        self.assertEqual(found("Look for it in the table; it looks like a lock.\n"), [])
        self.assertEqual(found("The sampler looks at threads.\n"), ["looks at threads"])

    def test_who_is_a_word_for_questions(self) -> None:
        self.assertEqual(found("Who holds a lock is read from it.\n"), ["Who"])
        self.assertEqual(found("# Who wakes whom\n")[-1], "whom")
        self.assertEqual(found("### Who held the lock?\n"), [])
        self.assertEqual(found("| Who held it? | read from the lock |\n"), [])
        self.assertEqual(found("It is the holder, who waits.\n"), [])

    def test_each_word_of_the_list_is_found(self) -> None:
        for sentence, words in (
            ("## The lock and who waits for it", ["## The lock and who"]),
            ("It stood still and stands there.", ["stood", "stands"]),
            ("The keeper, a taker, regulars.", ["keeper", "taker", "regulars"]),
            ("Its stay in a function and the course of it, a piece.", ["Its stay", "piece"]),
            ("A thread's course ends.", ["thread's course"]),
            ("The purse, its savings, a storm.", ["purse", "savings", "storm"]),
            ("A dear mistake is mended by itself, not himself.", ["dear", "mended", "himself"]),
            ("It is reckoned from that one.", ["reckoned", "that one"]),
            ("It is of whoever waits.", ["of whoever"]),
        ):
            self.assertCountEqual(found(sentence + "\n"), words, sentence)

    def test_a_phrase_may_span_two_lines(self) -> None:
        self.assertEqual(check_words.banned("It took it out\nof the pool.\n"), [(2, '"out of": write from')])

    def test_idioms_are_not_terms(self) -> None:
        for text in ("Of course.", "In the course of a day.", "The host ran out of memory.", "A stand-in answers.",
                     "A handle that stays the same.", "At that one moment.", "These words are understood."):
            self.assertEqual(found(text + "\n"), [], text)

    def test_the_place_of_a_finding_is_the_line_of_its_word(self) -> None:
        self.assertEqual([number for number, _ in check_words.banned("one\n\n`told`\n\nwas told\n")], [5])


class Columns(unittest.TestCase):
    def test_prose_has_a_limit(self) -> None:
        self.assertEqual(check_words.too_long("x" * 120 + "\n"), [])
        self.assertEqual(check_words.too_long("ok\n" + "x" * 121 + "\n"), [(2, "121 columns, at most 120")])

    def test_tables_code_and_addresses_may_be_long(self) -> None:
        for text in (
            "| " + "x " * 100 + "|\n",
            "```\n" + "x" * 200 + "\n```\n",
            "Run:\n\n    " + "x" * 200 + "\n",
            "https://example.org/" + "x" * 120 + "\n",
        ):
            self.assertEqual(check_words.too_long(text), [], text)

    def test_the_target_of_a_link_does_not_count(self) -> None:
        self.assertEqual(check_words.too_long("x" * 100 + " [a page](" + "y" * 60 + ".md)\n"), [])

    def test_code_inside_a_sentence_counts(self) -> None:
        self.assertEqual(len(check_words.too_long("x" * 60 + " `" + "y" * 60 + "`\n")), 1)


if __name__ == "__main__":
    unittest.main()
