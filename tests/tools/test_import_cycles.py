"""tools/import_cycles.py on crates made by hand: what is an import, and what is a cycle."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_rooms  # noqa: E402
import import_cycles  # noqa: E402


class ImportCycles(unittest.TestCase):
    """Each test writes the files of a crate's src/ and reads them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.src = Path(folder.name) / "src"

    def write(self, **files: str) -> None:
        """`a__b="..."` is the file a/b.rs."""
        for name, text in files.items():
            path = self.src / f"{name.replace('__', '/')}.rs"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def edges(self) -> dict[str, list[str]]:
        """File -> the files it imports, as names in src/."""
        def name(path: Path) -> str:
            return str(path.relative_to(self.src))

        found = import_cycles.graph([self.src / "lib.rs"])
        return {name(file): sorted(map(name, to)) for file, to in found.items()}

    def cycles(self) -> list[list[str]]:
        """The cycles, as names in src/."""
        found = import_cycles.cycles(import_cycles.graph([self.src / "lib.rs"]))
        return [[str(path.relative_to(self.src)) for path in cycle] for cycle in found]

    def test_modules_that_reach_each_other_are_a_cycle(self) -> None:
        self.write(
            lib="mod a; mod b; mod c; mod d;",
            a="use crate::b::B; pub struct A;",
            b="pub struct B(crate::c::C);",
            c="use super::{d, a::{self, A}}; pub struct C;",
            d="pub struct D;",
        )
        self.assertEqual(self.cycles(), [["a.rs", "b.rs", "c.rs"]])
        found = import_cycles.graph([self.src / "lib.rs"])
        way = import_cycles.shortest(found, import_cycles.cycles(found)[0])
        self.assertEqual([path.stem for path in way], ["a", "b", "c", "a"])

    def test_one_way_is_none(self) -> None:
        self.write(lib="mod a; mod b; mod c; use a::A;", a="use crate::{b::B, c};", b="use super::c::C;", c="")
        self.assertEqual(self.cycles(), [])
        self.assertEqual(self.edges()["a.rs"], ["b.rs", "c.rs"])

    def test_comments_strings_and_tests_import_nothing(self) -> None:
        self.write(
            lib="mod a; mod b;",
            a='//! Like `crate::b::B`.\n/* use crate::b; */ const T: &str = "crate::b::B"; const R: &str = r#"a"crate::b"#;\n'
            "#[cfg(test)]\nmod tests { use crate::b::B; fn f() { if true {} } }\n",
            b="use crate::a::T; const QUOTE: char = '\"'; const END: char = '\"';",
        )
        self.assertEqual(self.edges(), {"lib.rs": [], "a.rs": [], "b.rs": ["a.rs"]})

    def test_what_is_passed_on_is_its_definers(self) -> None:
        self.write(lib="mod a; mod b; pub use b::{B, C as D}; pub use b::*;", a="use crate::{B, D, E};",
                   b="pub struct B; pub struct C; pub struct E;")
        self.assertEqual(self.edges()["a.rs"], ["b.rs"])
        self.write(lib="mod a; mod b; pub use b::B; pub fn all() { a::f() }", a="pub fn f() { crate::all() }")
        self.assertEqual(self.cycles(), [["a.rs", "lib.rs"]])

    def test_a_folders_module_and_its_children_count(self) -> None:
        self.write(lib="mod a;", a__mod="mod b; pub use b::B; fn f() { b::g() }", a__b="use super::f; pub struct B;")
        self.assertEqual(self.cycles(), [["a/b.rs", "a/mod.rs"]])

    def test_super_in_a_module_that_is_written_inside_is_the_file(self) -> None:
        self.write(lib="mod a;", a="fn f() {}\nmod inside { use super::f; use super::super::other; }")
        self.assertEqual(self.edges()["a.rs"], ["lib.rs"])

    def test_a_room_with_a_cycle_is_a_finding(self) -> None:
        with mock.patch.object(check_rooms, "manifest", lambda room: self.src.parent / "Cargo.toml"):
            self.write(lib="mod a; mod b;", a="use crate::b;", b="")
            self.assertEqual(check_rooms.check_cycles("room"), [])
            self.write(lib="mod a; mod b;", a="use crate::b;", b="use crate::a;")
            self.assertEqual(check_rooms.check_cycles("room"),
                             ["room: modules import each other: a.rs > b.rs > a.rs; wanted imports in one way"])

    def test_a_module_imports_only_layers_below_it(self) -> None:
        header = "//! A crate.\n//!\n//! ```text\n//! top     reads\n//! bottom  is read\n//! ```\n"
        self.write(lib=header + "mod top; mod bottom;", top="use crate::bottom;", bottom="")
        with (
            mock.patch.object(check_rooms, "manifest", lambda room: self.src.parent / "Cargo.toml"),
            mock.patch.object(check_rooms, "ROOT", self.src.parent),
        ):
            self.assertEqual(check_rooms.check_layers("room"), [])
            self.write(lib=header + "mod top; mod bottom; mod other;", top="", bottom="use crate::top;", other="")
            self.assertEqual(check_rooms.check_layers("room"), [
                "src/bottom.rs imports top.rs, a layer above it",
                "room: the layers in lib.rs, top, bottom, do not have other",
            ])


class PythonCycles(unittest.TestCase):
    """The same for a Python package."""

    def cycles(self, **files: str) -> list[list[str]]:
        """`a="..."` is the file shop/a.py."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "shop"
            package.mkdir()
            for name, text in ({"__init__": ""} | files).items():
                (package / f"{name}.py").write_text(text, encoding="utf-8")
            (package / "_native.pyi").write_text("", encoding="utf-8")
            return [[path.stem for path in group] for group in import_cycles.cycles(import_cycles.python_graph(package))]

    def test_an_import_inside_a_function_counts(self) -> None:
        """It only puts off when the cycle is met."""
        self.assertEqual(self.cycles(a="from shop import b", b="def f():\n    import shop.a\n"), [["a", "b"]])

    def test_what_only_checkers_read_does_not_count(self) -> None:
        """Types of each other are no dependency at run time."""
        self.assertEqual(self.cycles(a="import shop.b", b="if TYPE_CHECKING:\n    from shop import a\n"), [])

    def test_a_name_of_the_package_is_the_package(self) -> None:
        """A submodule and the native module are not."""
        self.assertEqual(self.cycles(__init__="from shop import a", a="from shop import _native, b", b=""), [])
        self.assertEqual(self.cycles(__init__="from shop import a", a="from shop import VERSION"), [["__init__", "a"]])


if __name__ == "__main__":
    unittest.main()
