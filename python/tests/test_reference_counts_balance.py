"""Repeating a call of ours keeps the number of memory blocks, and of references where the
interpreter counts them (a debug build): nothing is leaked, and nothing is released twice."""

from __future__ import annotations

import textwrap

from conftest import Bench
from operations import OPERATIONS

# More than any list of freed objects, or table of kept ones, grows by in the second half.
REPEATED = 400
NOISE = 8
COUNTED = """
    def raises(*args, **kwargs): raise LookupError
    def set_up_faults():
        class Other:
            def before(self): return BODY
            def after(self): return BODY
            def fails(self): raise LookupError
        other = Other()
        _native.hook(Other, "before", before=raises)
        _native.hook(Other, "after", after=raises)
        _native.hook(Other, "fails", failed=raises)
        def fails_in_hooks():
            other.before(), other.after()
            try: other.fails()
            except LookupError: return "done"
        return fails_in_hooks
    def decorating():
        dashcam.span("made")(answered)
        dashcam.request(answered)
    def handles(): return dashcam.counter("orders"), dashcam.timing
    def reading(): return dashcam.status()["pid"], _native.traceparent(), _native.current_request()
    def logging_event():
        import logging
        record = logging.LogRecord("name", 20, "path", 1, "message %s", ("x",), None)
        HANDLER.emit(record)
    HANDLER = log.LogHandler()

    assert dashcam.start(slow="9s")
    hook()
    def total():
        for _ in range(3): gc.collect()
        return getattr(sys, "gettotalrefcount", int)(), sys.getallocatedblocks()
    def repeat(operation):
        for _ in itertools.repeat(None, REPEATED):
            operation()
            ERROR.__traceback__ = None
    def grown(operation):
        repeat(operation)
        rounds = []
        for _ in range(3):
            before = total()
            repeat(operation)
            rounds.append([now - then for now, then in zip(total(), before)])
        # What grows in each round; a table that grew once is none.
        return [min(each, key=abs) for each in zip(*rounds)]
    kept = []
    def leaks(): kept.append([])
    assert grown(leaks)[1] >= REPEATED
    more = (set_up_faults(), decorating, handles, reading, logging_event)
    # The list of a round, and what it holds: counted in each, by a debug build as some ten references.
    nothing = grown(lambda: None)
    found = {each.__name__: [one - own for one, own in zip(grown(each), nothing)] for each in (*operations, *more)}
    wrong = {name: grown for name, grown in found.items() if max(map(abs, grown)) > NOISE}
    assert not wrong, wrong
    print(found)
"""


def test_of_every_call_and_hook(bench: Bench) -> None:
    code = COUNTED.replace("REPEATED", str(REPEATED)).replace("NOISE", str(NOISE))
    done = bench.python(OPERATIONS + code)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    print(done.stdout)


def test_of_samples_under_the_gil(bench: Bench) -> None:
    """Of an interpreter whose memory is not read, which is what an unknown version is."""
    code = """
        sys.hexversion = 0x03FF00F0
        import threading, time
        import dashcam
        from dashcam import _native, _under_gil
        assert dashcam.start(slow="9s")
        deadline = time.monotonic() + 60
        while "under the GIL" not in dashcam.status()["sources"].get("stacks", ""):
            assert time.monotonic() < deadline, dashcam.status()["sources"]
            time.sleep(0.01)
        _under_gil.end()  # this thread looks in its place
        def samples():
            for _ in range(400): assert _native.sample_under_gil(threading._active) >= 0
        def total():
            for _ in range(3): gc.collect()
            return sys.getallocatedblocks()
        samples()
        grown = []
        for _ in range(3):
            before = total()
            samples()
            grown.append(total() - before)
        assert max(grown) <= NOISE, grown
        """
    done = bench.python("import gc, sys\n" + textwrap.dedent(code.replace("NOISE", str(NOISE))))
    assert done.returncode == 0, done.stderr
