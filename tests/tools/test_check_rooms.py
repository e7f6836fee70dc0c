"""tools/check_rooms.py: the files that tests build, and the lengths of files and functions."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_rooms  # noqa: E402

CODE = """\
trait Kind {
    fn pool() -> &'static Pool;
    fn nothing(&self) {}
}

impl Kind for Span {
    #[inline]
    pub(crate) unsafe fn bound<K: Kind>(
        one: u32,
        two: u32,
    ) -> u32 {
        if one > two {
            return one;
        }
        two
    }
}

unsafe extern "C" fn call(object: *mut Object) -> *mut Object {
    object
}
"""


class Tests(unittest.TestCase):
    """Which files of tests/it/ its main.rs builds."""

    def test_a_file_in_a_folder_is_named_by_an_inline_module(self) -> None:
        main = "mod made;\n\n/// Locks.\nmod locks {\n    mod by_hand;\n}\nmod other;\n"
        self.assertEqual(check_rooms.named_files(main), {"made", "locks/by_hand", "other"})

    def test_a_file_that_is_not_named_is_reported_also_in_a_folder(self) -> None:
        with tempfile.TemporaryDirectory() as place, mock.patch.object(check_rooms, "manifest") as manifest:
            folder = Path(place) / "tests" / "it"
            (folder / "locks").mkdir(parents=True)
            (folder / "made").mkdir()
            manifest.return_value = Path(place) / "Cargo.toml"
            (folder / "main.rs").write_text("mod made;\nmod locks {\n    mod one;\n}\n")
            for file in ("locks/one.rs", "locks/two.rs", "made/mod.rs", "made/rows.rs"):
                (folder / file).touch()
            wrong = check_rooms.check_tests("diagnosis")
            self.assertEqual(wrong, ["diagnosis: tests/it/locks/two.rs is not built: name it in tests/it/main.rs"])


class Lengths(unittest.TestCase):
    """What counts as a function, and which lengths are reported."""

    def test_a_function_is_as_long_as_from_its_first_line_to_its_brace(self) -> None:
        self.assertEqual(check_rooms.functions(CODE), [("pool", 1), ("nothing", 1), ("bound", 9), ("call", 3)])

    def found(self, lines: int, long: dict[str, tuple[int, str]]) -> list[str]:
        with mock.patch.object(check_rooms, "LONG", long):
            return check_rooms.check_sizes({"a.rs::f": (lines, 70)})

    def test_what_is_over_the_guide_is_listed_with_its_number_or_wrong(self) -> None:
        self.assertEqual(self.found(70, {}), [])
        self.assertEqual(self.found(71, {}), ["a.rs::f: 71 lines; wanted at most 70: divide it by concept"])
        self.assertEqual(self.found(71, {"a.rs::f": (71, "a table")}), [])

    def test_a_number_may_only_shrink(self) -> None:
        long = {"a.rs::f": (80, "a table")}
        self.assertIn("wanted at most 80", self.found(81, long)[0])
        self.assertIn("lower its number", self.found(79, long)[0])
        self.assertIn("take it from LONG", self.found(70, long)[0])
        self.assertEqual(self.found(1, {"b.rs": (501, "gone")}), ["LONG names b.rs, which is not there"])


if __name__ == "__main__":
    unittest.main()
