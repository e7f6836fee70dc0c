"""How tools/check_words.py decides: what is prose, which words are found, which lines are too long,
what of a source file is a comment, and which folders are held.

Run by tools/lint: python3 -m unittest discover -s tests/tools
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_words  # noqa: E402
import code_comments  # noqa: E402


def found(text: str) -> list[str]:
    """The words found in a page, without the advice."""
    return [what.split('"')[1] for _, what in check_words.banned(text)]


class Prose(unittest.TestCase):
    def test_code_addresses_and_link_targets_are_no_prose(self) -> None:
        for text in (
            "The thread `bee-keeper` writes it.\n",
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
        self.assertEqual(found("Release: who sees the flag sees the words.\n"), [": who"])
        self.assertEqual(found("It answers one question: who holds the lock?\n"), [])
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
                     "A handle that stays the same.", "At that one moment.", "These words are understood.",
                     "Each value stands for ten.", "An index out of bounds.", "Look up a name.",
                     "The look-up of a name.", "It is left out of the total."):
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


def comments(text: str) -> list[str]:
    """The comments of Rust code, without the lines that have none."""
    lines = code_comments.comments(".rs", text).splitlines()
    return [line for line in lines if line not in ("", code_comments.CODE)]


class Comments(unittest.TestCase):
    def test_each_form_of_a_comment_is_read_without_its_marker(self) -> None:
        text = "//! of a module\n/// of an item\nlet a = 1; // of a line\n/* of\n * a block */\n"
        self.assertEqual(comments(text), ["of a module", "of an item", "of a line", "of", "a block */"])

    def test_what_is_in_a_string_or_a_character_is_no_comment(self) -> None:
        for code in (
            'let a = "http://told";', 'let a = "\\"// told";', 'let a = r"\\"; // x', 'let a = r#"" // told"#;',
            'let a = b"// told";', "let a = '\"'; let b = '\"'; // x", "let a = '\\''; // x", "let a = '\\u{1f}'; // x",
            "fn f<'a, 'b>(a: &'a str) {} // x", "a.push('/'); // x", 'let a = "\n// told\n";',
        ):
            self.assertEqual(comments(code + "\n"), ["x"] if code.endswith("// x") else [], code)

    def test_a_line_of_the_comments_is_a_line_of_the_file(self) -> None:
        text = "fn a() {}\n\n// A sentence that\n// was told.\nfn b() {}\n"
        self.assertEqual(check_words.wrong_in_code("a.rs", text), [(4, '"told": write record, report, show, name')])

    def test_code_in_a_doc_comment_is_no_prose(self) -> None:
        text = "/// Calls `told`:\n///\n/// ```\n/// stood();\n/// ```\nfn a() {}\n"
        self.assertEqual(check_words.wrong_in_code("a.rs", text), [])

    def test_a_phrase_does_not_span_code(self) -> None:
        self.assertEqual(check_words.wrong_in_code("a.rs", "// taken out\nfn a() {}\n// of it\n"), [])
        self.assertEqual(len(check_words.wrong_in_code("a.rs", "// taken out\n// of it\n")), 1)

    def test_comments_have_a_limit_and_code_has_none(self) -> None:
        def lines(text: str) -> list[int]:
            return [number for number, _ in check_words.wrong_in_code("a.rs", text)]

        self.assertEqual(lines("// " + "x" * 97 + "\n    // " + "x" * 94 + "\nlet a = 1; // " + "x" * 87 + "\n"), [2, 3])
        self.assertEqual(lines('let a = "' + "x" * 100 + '";\n// See https://example.org/' + "x" * 100 + "\n"), [])

    def test_code_without_its_comments_is_compared_by_its_lines(self) -> None:
        before, after = "fn a() {} // x\n// y\n", "// z\n\nfn a() {}\n"
        self.assertEqual(*(code_comments.without_comments(".rs", text) for text in (before, after)))


class NamesOfTests(unittest.TestCase):
    def names(self, file: str, text: str) -> list[int]:
        return [number for number, _ in check_words.wrong_in_code(file, text)]

    def test_the_name_of_a_test_is_read_as_a_sentence(self) -> None:
        text = "#[test]\nfn a_waker_is_told() {}\n\n#[test]\n#[ignore]\nfn who_waits_is_known() {}\n"
        # Each is found twice: as a sentence, and by a word that no name is made of.
        self.assertEqual(self.names("crates/sampler/src/a.rs", text), [2, 2, 6, 6])

    def test_the_name_of_a_file_of_tests_is_read_as_a_sentence(self) -> None:
        self.assertEqual(self.names("crates/a/tests/wakers_are_told.rs", ""), [1])
        self.assertEqual(self.names("crates/a/src/told.rs", ""), [])

    def test_the_name_of_another_function_is_not_read(self) -> None:
        self.assertEqual(self.names("crates/ring/tests/wakers.rs", "fn stands() {}\n"), [])

    def test_a_name_by_a_word_is_found(self) -> None:
        text = 'fn is_told() {}\n// `told`\nlet a = "told";\nlet untold_ns = 1; let teller = foretold;\n'
        self.assertEqual(self.names("crates/cli/src/a.rs", text), [1, 4, 4])


class NamesInCode(unittest.TestCase):
    def names(self, file: str, text: str) -> list[str]:
        return [what.split(":")[0] for _, what in check_words.banned_in_code(file, text)]

    def test_each_word_of_a_name_is_compared_once_a_name(self) -> None:
        text = "struct Looker { purse_ns: u64 }\nfn set_takers(told: &Told) { purse_ns(); }\n"
        self.assertEqual(self.names("a.rs", text), ["Looker", "purse_ns", "set_takers", "told", "Told"])
        self.assertEqual(self.names("a.py", "def _tell(who): return who\n"), ["_tell", "who"])
        self.assertEqual(self.names("a.ts", "const allPieces = 1;\n"), ["allPieces"])

    def test_verbs_users_names_and_sentences_are_fine(self) -> None:
        text = "fn look_up(stand_in: u32) {}\npieces::PIECES;\nfn a_lock_whose_holder_nobody_who_waits_knows() {}\n"
        self.assertEqual(self.names("a.rs", text), ["PIECES"])

    def test_what_is_in_a_string_or_a_comment_is_no_name(self) -> None:
        self.assertEqual(self.names("a.rs", '// told\nlet a = "told"; let b = r#"told"#;\n'), [])
        self.assertEqual(self.names("a.py", '"""Told: it\'s told."""\na = f"told"  # told\nb = \'told\'\n'), [])

    def test_no_folder_is_left_out(self) -> None:
        for folder in ("crates/sim/src", "crates/diagnosis/src", "crates/report/src"):
            self.assertEqual(self.names(f"{folder}/a.rs", "fn keeper() {}\n"), ["keeper"])


if __name__ == "__main__":
    unittest.main()
