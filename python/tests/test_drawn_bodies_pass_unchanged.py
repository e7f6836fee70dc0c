"""Bodies, failures and servers drawn by hypothesis: a recorded process answers each exchange as a
bare one, and its application sees the same. The draws are the same each time; one that differs is
shrunk to the smallest that does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Bench

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

SERVER = Path(__file__).with_name("drawn_bodies.py")
EXCHANGES = st.fixed_dictionaries({
    "server": st.sampled_from(["wsgiref", "flask", "by hand", "asgi"]),
    "kind": st.sampled_from(["list", "tuple", "generator", "iterator", "iterable"]),
    "chunks": st.lists(st.text("ab", max_size=3), max_size=4),
    "methods": st.lists(st.sampled_from(["__len__", "__length_hint__", "__bool__", "__contains__", "fileno", "read",
                                         "__call__"]), unique=True, max_size=4),
    "close": st.sampled_from([None, "works", "raises"]),
    "fails_at": st.none() | st.integers(0, 3),
    "fails_before": st.sampled_from([False, False, False, True]),
    "fails_with": st.sampled_from(["ValueError", "OSError", "StopIteration", "KeyboardInterrupt", "SystemExit",
                                   "GeneratorExit"]),
    "writes": st.booleans(),
    "taken": st.integers(0, 5),
})


class Process:
    """One that serves exchanges, bare or recorded."""

    def __init__(self, bench: Bench, *words: str) -> None:
        self.process = bench.start([sys.executable, "-X", "faulthandler", str(SERVER), *words], stdin=True)

    def serve(self, exchange: "dict[str, Any]") -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(exchange) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> str:
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return str(out)


def test_a_recorded_process_answers_drawn_exchanges_as_a_bare_one(bench: Bench) -> None:
    for library in ("flask", "starlette"):
        pytest.importorskip(library)
    bare, recorded = Process(bench), Process(bench, "recorded")
    served = 0

    @hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=300,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(EXCHANGES)
    def same(exchange: "dict[str, Any]") -> None:
        nonlocal served
        served += 1
        assert bare.serve(exchange) == recorded.serve(exchange)

    try:
        same()
    except (json.JSONDecodeError, OSError):
        pytest.fail(f"a process ended: {bare.process.poll()}, {recorded.process.poll()}")
    bare.end()
    requests, notices, still_open = json.loads(recorded.end().splitlines()[-1])
    assert (notices, still_open) == ([], 0)
    # All but those that are called by hand, which have no server that begins requests.
    assert served / 2 < requests <= served
