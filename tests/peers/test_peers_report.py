"""Each test's outcome is recorded when it ends, for pytest and unittest, also if the process
dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

PYTEST = """
import os, unittest, pytest
def test_passes(): pass
def test_fails(): assert False
def test_skips(): pytest.skip("now")
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken(): raise OSError
def test_setup(broken): pass
@pytest.fixture
def late():
    yield
    raise OSError
def test_teardown(late): pass
@pytest.mark.parametrize("value", [object()], ids=repr)
def test_address(value): pass
def test_without_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
def test_forks():
    child = os.fork()
    if not child: pytest.exit("in the child", 0)
    os.waitpid(child, 0)
def test_dies(): os.abort()
"""

UNITTEST = """
import os, unittest
class Case(unittest.TestCase):
    def test_a_passes(self): pass
    def test_b_fails(self): self.fail()
    def test_c_raises(self): raise OSError
    def test_d_skips(self): self.skipTest("now")
    @unittest.expectedFailure
    def test_e_expected(self): self.fail()
    def test_f_subtests(self):
        for n in range(2):
            with self.subTest(n=n): self.assertEqual(n, 0)
    def test_g_dies(self): os.abort()
unittest.main()
"""


def reported(folder: Path, *words: str) -> "dict[str, list[str]]":
    report = folder / "report"
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PEERS_REPORT": str(report)}
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, timeout=120)
    found: "dict[str, list[str]]" = {}
    first, *lines = map(json.loads, report.read_text().splitlines())
    assert first == {"is_recorded": False}
    for line in lines:
        found.setdefault(line["test"].rpartition("test_")[2], []).append(line["outcome"])
    return found


def test_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST)
    found = reported(tmp_path, "-m", "pytest", "-p", "peers_report", "-p", "no:cacheprovider", "test_it.py")
    assert found == {
        "passes": ["passed"],
        "fails": ["failed"],
        "skips": ["skipped"],
        "expected": ["xfailed"],
        "setup": ["error"],
        "teardown": ["passed", "error"],
        "address[<object object at 0x>]": ["passed"],
        "without_environment": ["passed"],
        "forks": ["passed"],
    }


def test_of_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import no_such_module")
    found = reported(tmp_path, "-m", "pytest", "-p", "peers_report", "-p", "no:cacheprovider", "test_it.py")
    assert found == {"it.py::(collection)": ["error"]}


def test_of_unittest(tmp_path: Path) -> None:
    (tmp_path / "cases.py").write_text(UNITTEST)
    expected = {
        "a_passes": ["passed"],
        "b_fails": ["failed"],
        "c_raises": ["error"],
        "d_skips": ["skipped"],
        "e_expected": ["xfailed"],
        "f_subtests": ["failed"],
    }
    assert reported(tmp_path, "-m", "peers_report", "-m", "cases") == expected
    (tmp_path / "report").unlink()
    assert reported(tmp_path, "-m", "peers_report", "cases.py") == expected
