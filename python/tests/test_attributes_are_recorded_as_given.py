"""Values given to spans, requests and events are read back from a capture, and values that do not
fit are counted.
"""

from __future__ import annotations

import json
import math
from typing import Any

from conftest import Bench


def attributes(bench: Bench, capture: str) -> dict[str, dict[str, Any]]:
    """Name -> attributes, of a capture's requests, spans and events."""
    page = bench.folder / "chrome.json"
    done = bench.dashcam("export", capture, "--to", "chrome", "-o", str(page))
    assert done.returncode == 0, done.stderr
    found = json.loads(page.read_text(encoding="utf-8"))
    listed = found["traceEvents"] if isinstance(found, dict) else found
    ours = {"request id", "kind", "thread", "error"}
    return {e["name"]: {k: v for k, v in e["args"].items() if k not in ours}
            for e in listed if "args" in e and e.get("cat") != "handler"}


def run(bench: Bench, code: str, **env: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Attributes by name, and `status()["losses"]`, of a program that began `import dashcam`."""
    result = bench.python(code, **env)
    assert result.returncode == 0, result.stderr
    capture, state = result.stdout.strip().splitlines()[-2:]
    return attributes(bench, capture), json.loads(state)


END = "\nimport json; print(dashcam.snap()); print(json.dumps(dashcam.status()))\n"


def test_every_kind_of_value_is_kept_as_what_it_is(bench: Bench) -> None:
    found, _ = run(bench, """
import dashcam, enum
dashcam.start()
class Level(enum.IntEnum): HIGH = 3
class Colour(str, enum.Enum): RED = "red"
class Word(str): pass
class Broken:
    def __str__(self): raise ValueError("no")
half = "\\ud83d"
with dashcam.span("plain", i=3, n=-1, f=0.5, t=True, s="päris", e=""): pass
with dashcam.span("odd", level=Level.HIGH, colour=Colour.RED, word=Word("w"), none=None, list=[1],
                  big=2**70, broken=Broken(), half=half): pass
dashcam.event("event", k="k1", none=None, name="given")
dashcam.event(name="named", k=1)
with dashcam.span(name=Word("by keyword"), a=1): pass
""" + END)
    assert found["plain"] == {"i": 3, "n": -1, "f": 0.5, "t": True, "s": "päris", "e": ""}
    odd = found["odd"]
    assert math.isclose(odd.pop("big"), 2.0**70)
    assert odd.pop("broken") == "<Broken without str()>"
    assert odd.pop("colour") in ("red", "Colour.RED"), "as str() of this Python has it"
    assert odd == {"level": 3, "word": "w", "none": "None", "list": "[1]", "half": "\\ud83d"}
    assert found["event"] == {"k": "k1", "none": "None", "name": "given"}
    assert found["named"] == {"k": 1} and found["by keyword"] == {"a": 1}


def test_what_does_not_fit_is_cut_and_counted(bench: Bench) -> None:
    found, state = run(bench, """
import dashcam
dashcam.start()
many = {f"k{i}": i for i in range(12)}
with dashcam.span("many", **many) as span: span.set(late=1)
dashcam.event("many too", **many)
with dashcam.span("long", ascii="a" * 65, wide="ä" * 1_000_000, whole="b" * 64): pass
dashcam.event("long event", ascii="a" * 513, wide="ä" * 100)
@dashcam.span("decorated", **many)
def call(): pass
call()
""" + END)
    first = {f"k{i}": i for i in range(8)}
    assert found["many"] == found["many too"] == found["decorated"] == first
    assert found["long"] == {"ascii": "a" * 64, "wide": "ä" * 32, "whole": "b" * 64}
    assert found["long event"] == {"ascii": "a" * 512, "wide": "ä" * 100}
    # 5 of the first span (one of them late), 4 of the event, 3 texts, 4 of the decorated one.
    assert state["losses"]["attributes_cut"] == 16


def test_attributes_are_added_and_replaced_until_the_end(bench: Bench) -> None:
    found, _ = run(bench, """
import dashcam
dashcam.start()
with dashcam.request("r", user=1) as request:
    with dashcam.span("s", rows=0, table="t") as span:
        span.set(rows=3, found=[1, 2])
    span.set(rows=4)
    request.set(user=2, **{"sta" + "tus": 200})
assert span.attributes == {"rows": 4, "table": "t", "found": "[1, 2]"}, span.attributes
""" + END)
    assert found["s"] == {"rows": 3, "table": "t", "found": "[1, 2]"}
    assert found["r"] == {"user": 2, "status": 200}


def test_an_error_ends_a_span_and_a_request_with_its_type(bench: Bench) -> None:
    found, _ = run(bench, """
import dashcam, contextlib, subprocess
dashcam.start()
with contextlib.suppress(KeyError), dashcam.request("r"), dashcam.span("s", a=1):
    {}["x"]
many = {f"k{i}": i for i in range(8)}
with contextlib.suppress(Exception), dashcam.span("full", **many):
    raise subprocess.TimeoutExpired("x", 1)
""" + END)
    assert found["r"] == {"exception.type": "KeyError"}
    assert found["s"] == {"exception.type": "KeyError", "a": 1}
    assert found["full"] == {"exception.type": "TimeoutExpired", **{f"k{i}": i for i in range(7)}}


def test_values_are_not_converted_while_off_and_interrupts_pass(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        asked = []
        class Costly:
            def __str__(self):
                asked.append(1)
                return "c"
        class Interrupted:
            def __str__(self): raise KeyboardInterrupt
        def all_of_it(value):
            with dashcam.span("s", v=value) as span: span.set(w=value)
            with dashcam.request("r", v=value) as request: request.set(w=value)
            dashcam.event("e", v=value)
        all_of_it(Costly())
        assert asked == [], "off"
        all_of_it(Interrupted())
        dashcam.start()
        all_of_it(Costly())
        assert len(asked) == 5, asked
        def span():
            with dashcam.span("s", v=Interrupted()): raise AssertionError("entered")
        def request():
            with dashcam.request("s", v=Interrupted()): raise AssertionError("entered")
        def late():
            with dashcam.span("s") as span: span.set(v=Interrupted())
        for call in (span, request, late, lambda: dashcam.event("e", v=Interrupted())):
            try:
                call()
            except KeyboardInterrupt:
                continue
            raise AssertionError("swallowed")
        assert dashcam._native.current_request() == 0
    """)
    assert result.returncode == 0, result.stderr


def test_a_name_of_a_type_of_the_programs_is_not_kept_and_not_asked(bench: Bench) -> None:
    found, _ = run(bench, """
import dashcam, weakref
from dashcam import _native as native
dashcam.start()
class Name(str):
    def __hash__(self): asked.append("hash"); return 1
    def __eq__(self, other): asked.append("eq"); return True
kept, asked = [], []
for text in ("one", "two"):
    name = Name(text)
    kept.append(weakref.ref(name))
    native.request_end(native.request_begin(name), False)
del name
assert asked == [] and [one() for one in kept] == [None, None], (asked, kept)
""" + END)
    assert {"one", "two"} <= set(found), found


def test_calls_that_are_wrong_in_themselves_say_so(bench: Bench) -> None:
    result = bench.python("""
        import copy, dashcam
        span = dashcam.span("s")
        wrong = {
            "span: name: found int, wanted str": lambda: dashcam.span(3),
            "span: found 2 positional arguments, wanted one": lambda: dashcam.span("a", "b"),
            "span() misses its argument 'name'": lambda: dashcam.span(),
            "request() misses its argument 'name'": lambda: dashcam.request(a=1),
            "event: name: found NoneType, wanted str": lambda: dashcam.event(None),
            "one argument, a function": lambda: span(3),
            "set() takes attributes by keyword only": lambda: span.set(3),
            "__enter__() takes no arguments": lambda: span.__enter__(1),
            "__exit__() takes three arguments": lambda: span.__exit__(),
            "cannot create 'dashcam._native.Span' instances": lambda: type(span)("x"),
        }
        for text, call in wrong.items():
            try:
                call()
            except TypeError as error:
                assert text in str(error), (text, str(error))
            else:
                raise AssertionError(text)
        for call in (lambda: copy.copy(span), lambda: object.__new__(type(span)),
                     lambda: type(span).__enter__(dashcam.request("r")),
                     lambda: type("Sub", (type(span),), {}),
                     lambda: setattr(span, "__class__", type(dashcam.request("r")))):
            try:
                call()
            except TypeError:
                continue
            raise AssertionError("taken")
        assert repr(span) == "<dashcam.span 's'>", repr(span)
    """)
    assert result.returncode == 0, result.stderr
