"""tools/lane.py: builds of the fast lane are linted, and a lint is an error."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import lane  # noqa: E402

CLEAN = "pub fn half(n: u32) -> u32 {\n    n / 2\n}\n"
# clippy::needless_return, a lint that rustc does not have.
LINTED = CLEAN.replace("n / 2", "return n / 2;")


class LintedBuilds(unittest.TestCase):
    """Each test builds a crate of one file."""

    def build(self, source: str) -> subprocess.CompletedProcess[str]:
        """`cargo build` as tools/test runs it."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "Cargo.toml").write_text('[package]\nname = "one"\nedition = "2021"\n[lib]\npath = "one.rs"\n')
            (Path(folder) / "one.rs").write_text(source)
            return subprocess.run(["cargo", "build", "--quiet", "--offline", "--target-dir", "built"], cwd=folder,
                                  env=os.environ | lane.linted(), capture_output=True, text=True, check=False)

    def test_clean_code_is_built(self) -> None:
        built = self.build(CLEAN)
        self.assertEqual((built.returncode, built.stderr), (0, ""))

    def test_a_lint_of_clippy_is_an_error(self) -> None:
        built = self.build(LINTED)
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("needless_return", built.stderr)


if __name__ == "__main__":
    unittest.main()
