"""Each crate that is to be published has what crates.io and its readers want."""

from __future__ import annotations

import json
import subprocess
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Those that programs name; the others come with them.
NAMED = {"dashcam", "dashcam-tracing", "dashcam-metrics-facade"}
KEYWORDS_MAX = 5


def published() -> list[dict[str, Any]]:
    """The packages that cargo would publish."""
    found = subprocess.run(["cargo", "metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"], cwd=ROOT,
                           check=True, capture_output=True)
    return [package for package in json.loads(found.stdout)["packages"] if package["publish"] is None]


class TestCratesToPublish(unittest.TestCase):
    def test_each_says_what_it_is_and_has_its_licence(self) -> None:
        licence = (ROOT / "LICENSE").read_bytes()
        packages = published()
        self.assertLessEqual(NAMED, {package["name"] for package in packages})
        for package in packages:
            with self.subTest(package["name"]):
                self.assertTrue(package["description"])
                self.assertEqual(package["license"], "MIT")
                self.assertEqual(Path(package["manifest_path"]).with_name("LICENSE").read_bytes(), licence)

    def test_what_programs_name_has_a_page_and_words_to_find_it_by(self) -> None:
        for package in published():
            if package["name"] in NAMED:
                with self.subTest(package["name"]):
                    page = Path(package["manifest_path"]).with_name("README.md").read_text("utf-8")
                    self.assertTrue(page.startswith(f"# {package['name']}\n") and "```rust" in page)
                    # A page of crates.io has no other files beside it.
                    self.assertNotIn("](../", page)
                    self.assertTrue(0 < len(package["keywords"]) <= KEYWORDS_MAX and package["categories"])

    def test_each_depends_on_published_crates_alone(self) -> None:
        packages = published()
        names = {package["name"] for package in packages}
        for package in packages:
            for needed in package["dependencies"]:
                if needed.get("path") and needed["kind"] is None:
                    with self.subTest(f"{package['name']} needs {needed['name']}"):
                        self.assertIn(needed["name"], names)
                        self.assertNotEqual(needed["req"], "*")


if __name__ == "__main__":
    unittest.main()
