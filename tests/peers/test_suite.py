"""The differences of a suite that remain, and those that known.py accepts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import suite as suites  # noqa: E402
from environment import Failed, Place  # noqa: E402
from judging import EXIT, Run  # noqa: E402
from known import Known  # noqa: E402
from projects import Project  # noqa: E402

TEST = "tests/test_app.py::test_stream"


def suite(bare: "list[Run]", recorded: "list[Run]") -> suites.Suite:
    project = Project("billy", "1.0", "", keep=("tests",), run=("tests",))
    made = suites.Suite(project, Place(Path(), Path(), Path()), Path())
    made.bare, made.recorded = bare, recorded
    return made


def whole(outcome: str) -> Run:
    return Run({TEST: outcome, EXIT: "exit 0" if outcome == "passed" else "exit 1"})


def test_an_exit_code_that_follows_from_a_test_is_left_out() -> None:
    (found,) = suite([whole("passed")], [whole("failed")]).differences()
    assert (found.test, found.verdict, found.is_accepted) == (TEST, "changed", False)


def test_an_exit_code_alone_is_a_difference() -> None:
    recorded = Run({TEST: "passed", EXIT: "exit 1"})
    (found,) = suite([whole("passed")], [recorded]).differences()
    assert (found.test, found.is_accepted) == (EXIT, False)


def test_a_signal_is_a_difference_beside_that_of_a_test() -> None:
    found = suite([whole("passed")], [whole("failed"), Run({EXIT: "SIGSEGV"})]).differences()
    assert [d.test for d in found] == [EXIT, TEST]


@pytest.mark.parametrize("seen, is_accepted", [("changed", True), ("unsteady", False)])
def test_what_is_known_is_accepted_as_far_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch, seen: str, is_accepted: bool
) -> None:
    # type: ignore[arg-type]
    monkeypatch.setattr(suites, "KNOWN", [Known("billy", TEST, seen, "a reason")])
    always = suite([whole("passed")] * 8, [whole("failed")] * 8)
    assert [d.is_accepted for d in always.differences()] == [is_accepted]
    once = suite([whole("passed")] * 8, [whole("failed"), *[whole("passed")] * 7])
    assert [d.is_accepted for d in once.differences()] == [True]
    monkeypatch.setattr(suites, "KNOWN", [Known("another", TEST, "changed", "a reason")])
    assert [d.is_accepted for d in once.differences()] == [False]


def test_files_that_cannot_be_collected_are_no_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    made = suite([], [])
    collected = Run({"tests/test_app.py::(collection)": "error", EXIT: "exit 2"})
    monkeypatch.setattr(suites, "run", lambda *_: collected)
    with pytest.raises(Failed, match="billy: no test passed bare"):
        made.examine(rounds=1, again=0)
    monkeypatch.setattr(suites, "run", lambda *_: whole("passed"))
    made.examine(rounds=1, again=0)
