"""Writes the outcome of each test of another project's suite as a line of JSON, when the test ends.

How it works: copied into the suite's environment, it is a plugin of pytest (`-p peers_report`), and
a program that runs a module of unittest tests (`python -m peers_report -m MODULE ...`) with
unittest's results wrapped. Lines go to the file that PEERS_REPORT names, opened for each of them:
no descriptor of dashcam's is open while a test runs, and a process that crashes leaves the outcomes
that it reached.

What it promises: the suite sees the same of it bare and recorded. Children of the process write
nothing. The first line says whether dashcam records the process.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unittest

# Taken before a test replaces them.
_REPORT = os.environ.get("PEERS_REPORT", os.devnull)
_open, _write_to, _close, _getpid = os.open, os.write, os.close, os.getpid
_OWNER = os.getpid()
_DETAIL_CHARACTERS = 6000
# Names made of an object's repr differ from run to run.
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def _write(**fields: object) -> None:
    if _getpid() != _OWNER:
        return
    line = json.dumps(fields) + "\n"
    handle = _open(_REPORT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _write_to(handle, line.encode("ascii"))
    finally:
        _close(handle)


def _outcome(test: str, outcome: str, detail: object = "") -> None:
    text = "" if outcome == "passed" else str(detail)[-_DETAIL_CHARACTERS:]
    _write(test=_ADDRESS.sub("0x", test), outcome=outcome, detail=text)


def _begin() -> None:
    native = getattr(sys.modules.get("dashcam"), "_native", None)
    _write(is_recorded=bool(native is not None and native.is_started()))


# As a plugin of pytest.


def pytest_configure(config) -> None:  # type: ignore[no-untyped-def]
    # A worker of pytest-xdist sends its reports to the process that started it, which writes them.
    config.peers_writes = not hasattr(config, "workerinput")
    if config.peers_writes:
        _begin()
        config.pluginmanager.register(_Reports(), "peers_reports")


class _Reports:
    def pytest_collectreport(self, report) -> None:  # type: ignore[no-untyped-def]
        if report.failed:
            _outcome(f"{report.nodeid}::(collection)", "error", report.longreprtext)

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def]
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        elif report.failed and report.when != "call":
            outcome = "error"
        if report.when == "call" or outcome != "passed":
            _outcome(report.nodeid, outcome, report.longreprtext)


# As a program that runs a module of unittest tests.


def _wrap(method: str, outcome: str) -> None:
    original = getattr(unittest.TestResult, method)

    def wrapped(self, test, *rest):  # type: ignore[no-untyped-def]
        _outcome(test.id(), outcome, self._exc_info_to_string(rest[0], test) if _is_error(rest) else rest)
        return original(self, test, *rest)

    setattr(unittest.TestResult, method, wrapped)


def _is_error(rest: tuple) -> bool:  # type: ignore[type-arg]
    return bool(rest) and isinstance(rest[0], tuple) and len(rest[0]) == 3


def _wrap_subtests() -> None:
    original = unittest.TestResult.addSubTest

    def wrapped(self, test, subtest, error):  # type: ignore[no-untyped-def]
        if error is not None:
            _outcome(test.id(), "failed", self._exc_info_to_string(error, subtest))
        return original(self, test, subtest, error)

    unittest.TestResult.addSubTest = wrapped  # type: ignore[method-assign]


def _main() -> None:
    import runpy

    _begin()
    ends = {"addSuccess": "passed", "addFailure": "failed", "addError": "error", "addSkip": "skipped"}
    ends.update(addExpectedFailure="xfailed", addUnexpectedSuccess="xpassed")
    for method, outcome in ends.items():
        _wrap(method, outcome)
    _wrap_subtests()
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _main()
