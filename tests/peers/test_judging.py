"""A difference is a change by dashcam unless the bare side differs as well."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from judging import EXIT, Counts, Run, count, fisher  # noqa: E402

TEST = "test_app.py::test_stream"


def verdict(bare: "dict[str, int]", recorded: "dict[str, int]") -> str:
    return Counts(Counter(bare), Counter(recorded)).verdict()


def test_the_same_outcome_on_both_sides_is_no_difference() -> None:
    assert verdict({"passed": 2}, {"passed": 3}) == "same"
    assert verdict({"failed": 2}, {"failed": 3}) == "same"


def test_an_outcome_that_only_recorded_runs_have_is_a_change_however_rare() -> None:
    assert verdict({"passed": 10}, {"passed": 10, "failed": 1}) == "changed"


def test_a_failure_that_recording_hides_is_a_change() -> None:
    assert verdict({"failed": 10}, {"passed": 10}) == "changed"


def test_what_differs_bare_is_unsteady() -> None:
    assert verdict({"passed": 9, "failed": 1}, {"passed": 10}) == "unsteady"
    assert verdict({"passed": 8, "failed": 2}, {"passed": 6, "failed": 4}) == "unsteady"


def test_a_share_that_chance_does_not_explain_is_a_change() -> None:
    assert verdict({"passed": 9, "failed": 1}, {"passed": 1, "failed": 9}) == "changed"


def test_a_test_that_a_whole_run_does_not_reach_is_missing() -> None:
    bare = Run({TEST: "passed", EXIT: "exit 0"})
    recorded = Run({EXIT: "exit 0"})
    assert count([bare], [recorded])[TEST].recorded == {"missing": 1}


def test_of_a_run_that_a_signal_ended_only_the_end_is_judged() -> None:
    bare = Run({TEST: "passed", EXIT: "exit 0"})
    recorded = Run({EXIT: "SIGSEGV"})
    counts = count([bare], [recorded])
    assert counts[TEST].verdict() == "same"
    assert counts[EXIT].verdict() == "changed"


def test_a_run_of_some_files_does_not_miss_the_tests_of_others() -> None:
    whole = Run({TEST: "passed", "test_io.py::test_read": "passed", EXIT: "exit 0"})
    part = Run({"test_io.py::test_read": "passed", EXIT: "exit 0"}, frozenset(["test_io.py"]))
    counts = count([whole, part], [whole, part])
    assert counts[TEST].bare == counts[TEST].recorded == {"passed": 1}
    assert counts["test_io.py::test_read"].bare == {"passed": 2}


def test_a_process_of_a_module_is_judged_beside_the_others() -> None:
    end = f"test_gc::{EXIT}"
    counts = count([Run({end: "exit 0"})], [Run({end: "not done in 600 s"})])
    assert counts[end].verdict() == "changed"


# From a textbook's table; SciPy's fisher_exact gives the same.
@pytest.mark.parametrize(
    "table, chance",
    [((8, 10, 1, 6), 0.034965), ((3, 4, 1, 4), 0.485714), ((0, 8, 8, 8), 0.000155), ((5, 10, 5, 10), 1.0)],
)
def test_the_exact_test_has_the_values_of_textbooks(table: "tuple[int, int, int, int]", chance: float) -> None:
    assert fisher(*table) == pytest.approx(chance, abs=1e-6)
