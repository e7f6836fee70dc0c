"""Runs a program's cases twice in one process, without dashcam and with it: what each gives, raises
(with which frames) and warns of is the same."""

from __future__ import annotations

from conftest import Bench

BEGIN = r"""
    import asyncio, gc, inspect, io, itertools, json, logging, re, sys, traceback, types, warnings
    from collections import abc, UserDict
    sys.path.insert(0, TESTS)
    import dashcam
    def kinds(thing):
        found = [name for name in dir(inspect) if name.startswith("is") and name != "iskeyword"
                 and getattr(inspect, name)(thing)]
        return found, dir(thing), callable(thing), isinstance(thing, abc.Coroutine), thing.__class__
    def outcome(call, collects):
        "What it gives or raises, and through which frames it came."
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try: gave = "gave", call()
            except BaseException as error:
                frames = [(f.filename.rpartition("/")[2], f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
                gave = "raised", repr(error), repr(error.__context__), frames
            if collects: gc.collect()  # what warns of itself as it goes does so now
        return re.sub(r"0x[0-9a-f]+|id='\d+'|\d\d:\d\d:\d\d(,\d+)?", "0x", repr((gave, [str(w.message) for w in caught])))
    def compare(cases, collects=True, record=lambda: None):
        "Each case is a function; all of them bare, then all of them recorded: `record` hooks what is no module."
        gc.collect()
        gc.freeze()  # each case collects: what a framework leaves behind when it is imported is not walked again
        # Which request an automatic collection falls into depends on what was allocated since the last one, and
        # starting dashcam allocates: a body in a cycle would be closed inside of another case than bare.
        gc.disable()
        bare = {name: outcome(case, collects) for name, case in cases.items()}
        assert dashcam.start(slow="9s")
        record()
        recorded = {name: outcome(case, collects) for name, case in cases.items()}
        def around(one, other):
            at = next((at for at, pair in enumerate(zip(one, other)) if len(set(pair)) > 1), min(len(one), len(other)))
            return one[max(0, at - 200):at + 100], other[max(0, at - 200):at + 100]
        differ = {name: around(bare[name], recorded[name]) for name in cases if bare[name] != recorded[name]}
        assert not differ, "\n".join(f"{name}:\n  bare     {pair[0]}\n  recorded {pair[1]}" for name, pair in differ.items())
        assert [text for text in dashcam.status()["integrations"]] == [], dashcam.status()["integrations"]
        print(len(cases), "cases")
"""


def run(bench: Bench, code: str) -> None:
    """Runs a program, which reports its own errors."""
    result = bench.python(BEGIN.replace("TESTS", repr(str(bench.folder))) + code)
    assert result.returncode == 0, result.stderr
    print(result.stdout)
