"""How tools/check_destructors.py finds destructors of the binding that have no row in its table, and
rows without a destructor.

Run by tools/lint: python3 -m unittest discover -s tests/tools
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_destructors  # noqa: E402

SOURCES = {
    "a slot": ("slot(ffi::Py_tp_dealloc, unbind as *const c_void),", "unbind"),
    "a slot of a generic function": ("slot(ffi::Py_tp_clear, clear::<T> as *const c_void),", "clear"),
    "a life": ("unsafe impl Life for Work {", "impl Life for Work"),
    "a life of generic objects": ("unsafe impl<P: Part> Life for Work<P> {", "impl Life for Work"),
    "a drop": ("impl Drop for Held<'_> {", "impl Drop for Held"),
    "a callback of the collector": ("pub fn gc_callback(py: Python<'_>) {", "gc_callback"),
    "a capsule": ("ffi::PyCapsule_New(pointer, NAME, Some(end))", "end"),
    "a method of a class of PyO3": ("    fn __clear__(&mut self) {}", "__clear__"),
}


def row(what: str) -> str:
    """A row for it in the file that these tests make up."""
    return f"//! | `moments/work.rs` `{what}` | last reference | releases its own |\n"


class Destructors(unittest.TestCase):
    """By kind."""

    def test_each_kind_is_found(self) -> None:
        for kind, (source, what) in SOURCES.items():
            with self.subTest(kind):
                files = {"moments/work.rs": source}
                self.assertEqual(len(check_destructors.findings(files, "")), 1)
                self.assertEqual(check_destructors.findings(files, row(what)), [])

    def test_a_row_without_a_destructor_is_found(self) -> None:
        found = check_destructors.findings({"moments/work.rs": "fn dealloc() {}"}, row("dealloc"))
        self.assertEqual(len(found), 1)
        self.assertIn("where there is none", found[0])

    def test_a_slot_whose_function_has_no_name_is_found(self) -> None:
        for source in ("slot(ffi::Py_tp_dealloc, P::DEALLOC as *const c_void)", "(*class).tp_dealloc = Some(ours);",
                       "let which = ffi::Py_tp_finalize;"):
            with self.subTest(source):
                self.assertEqual(len(check_destructors.findings({"types.rs": source}, "")), 1)

    def test_a_slot_that_is_read_to_call_it_is_none(self) -> None:
        source = "if let Some(again) = (*class).tp_dealloc {"
        self.assertEqual(check_destructors.findings({"life.rs": source}, ""), [])

    def test_a_comment_is_none(self) -> None:
        self.assertEqual(check_destructors.findings({"life.rs": "//! Missing on purpose: `tp_clear`."}, ""), [])


if __name__ == "__main__":
    unittest.main()
