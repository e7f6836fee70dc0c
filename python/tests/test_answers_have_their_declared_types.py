"""What `status()`, `summary()` and `why()` return is what `dashcam.shapes` declares: the same keys,
values of those types.
"""

from __future__ import annotations

import gzip
import json
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from conftest import Bench

import dashcam
from dashcam import shapes

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "captures"
# `str | None` cannot be evaluated before.
pytestmark = pytest.mark.skipif(sys.version_info < (3, 10), reason="types are read from 3.10 on")

PROGRAM = """
import json, time, dashcam
assert dashcam.start(service="billy", slow="1ms", out="c", memory="2MiB", post="1ms", at_exit="never",
                     openmetrics="127.0.0.1:0", labels="version=4.2")
stream = dashcam.stream("live.dashcam")
dashcam.counter("orders", tags={"kind": "new"}).inc()
dashcam.timing("db", 3)
for index in range(40):
    with dashcam.request("GET /x"), dashcam.span("q"):
        if index % 4 == 0:
            time.sleep(0.01)
capture = dashcam.open(dashcam.snap("a test"))
print(json.dumps([dashcam.status(), capture.summary(), capture.why().json()]))
stream.close()
"""


def wrong(value: Any, hint: Any, where: str) -> list[str]:
    """The places in a value that are not as its type says."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return []
    if kind in (Union, types.UnionType):
        each = [wrong(value, one, where) for one in inner]
        return [] if [] in each else min(each, key=len)
    if kind is Literal:
        return [] if value in inner else [f"{where}: {value!r} is none of {inner}"]
    if kind is list:
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [line for index, item in enumerate(value) for line in wrong(item, inner[0], f"{where}[{index}]")]
    if kind is dict or hasattr(hint, "__required_keys__"):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no dict"]
        if kind is dict:
            return [line for key, item in value.items() for line in wrong(item, inner[1], f"{where}.{key}")]
        hints = get_type_hints(hint)
        lines = [f"{where}: {key} is not declared" for key in value if key not in hints]
        lines += [f"{where}: {key} is missing" for key in hint.__required_keys__ if key not in value]
        return lines + [
            line for key, item in value.items() if key in hints for line in wrong(item, hints[key], f"{where}.{key}")
        ]
    fits = {float: (int, float), int: int, bool: bool, str: str, type(None): type(None)}[hint]
    is_other = isinstance(value, bool) and hint is not bool
    return [] if isinstance(value, fits) and not is_other else [f"{where}: {value!r} is no {hint.__name__}"]


def test_a_recording_process_and_its_capture(bench: Bench) -> None:
    result = bench.python(PROGRAM)
    assert result.returncode == 0, result.stderr
    status, summary, verdict = json.loads(result.stdout)
    assert wrong(status, shapes.Status, "status") == []
    # What only says why something is not so may be missing; the rest is there.
    assert set(get_type_hints(shapes.Status)) - set(status) == {"why"}
    assert wrong(summary, shapes.Summary, "summary") == []
    assert summary["threads"] and summary["slowest"] and summary["metrics"]
    # Which causes it has depends on the samples that the machine had time for: the next test has them.
    assert wrong(verdict, shapes.Verdict, "verdict") == []


def test_a_verdict_with_a_cause_and_its_place(tmp_path: Path) -> None:
    path = tmp_path / "one.dashcam"
    path.write_bytes(gzip.decompress((GOLDEN / "sleep-library.dashcam.gz").read_bytes()))
    verdict = dashcam.open(path).why().json()
    assert wrong(verdict, shapes.Verdict, "verdict") == []
    [cause] = verdict["causes"]
    assert cause["where"] and cause["where"]["function"] and cause["evidence"] and cause["advice"]


def test_a_process_that_does_not_record(bench: Bench) -> None:
    result = bench.python("import json, dashcam; print(json.dumps(dashcam.status()))")
    assert wrong(json.loads(result.stdout), shapes.Status, "status") == []


@pytest.mark.parametrize("value, line", [
    ({"on": True, "integrations": [], "new": 1}, "status: new is not declared"),
    ({"on": True}, "status: integrations is missing"),
    ({"on": 1, "integrations": []}, "status.on: 1 is no bool"),
    ({"on": True, "integrations": [], "requests": True}, "status.requests: True is no int"),
    ({"on": True, "integrations": [1]}, "status.integrations[0]: 1 is no str"),
])
def test_another_shape_is_found(value: dict[str, Any], line: str) -> None:
    assert wrong(value, shapes.Status, "status") == [line]
