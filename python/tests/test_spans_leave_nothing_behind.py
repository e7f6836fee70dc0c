"""Spans, requests and events hold their values as long as they live, and no longer."""

from __future__ import annotations

import sys

import pytest
from conftest import Bench

NATURES = {"off": "", "on": "dashcam.start()\n"}


@pytest.mark.parametrize("nature", NATURES)
def test_references_are_exact(bench: Bench, nature: str) -> None:
    result = bench.python("import dashcam\n" + NATURES[nature] + """
import sys, contextlib
class Odd:
    def __str__(self): return "odd"
name, text, odd, error = "a name of %d" % 1, "a text of %d" % 1, Odd(), ValueError("x")
number, share = 10**15 + len(text), 0.1 * len(text)
watched = [name, text, odd, number, share, error, dashcam.span, None, True, False, str, ValueError,
           type(dashcam.span("x")), type(dashcam.request("x"))]
def counts(): return [sys.getrefcount(thing) for thing in watched]
def once():
    with dashcam.request(name, a=text, b=odd, c=number) as request:
        request.set(a=number, b=text, d=share, e=odd)
        request.attributes, request.id, request.name, repr(request)
        for _ in range(2):
            with dashcam.span(name, a=text, b=number, c=share, d=odd, e=None, f=True) as span:
                span.set(a=odd, g=text, h=text, i=text, j=text)
                enter, again = span.__enter__, span.__enter__
                leave, too = span.__exit__, span.__exit__
                assert (enter is again) == (leave is too)
        with contextlib.suppress(ValueError), dashcam.span(name): raise error
        dashcam.event(name, a=text, b=odd, c=number, d=share)
        dashcam.span("unused", a=odd, b=text)
        kept = dashcam.span(name, a=text).__exit__
        kept(None, None, None)
        error.__traceback__ = None
    @dashcam.span(name, a=odd, b=text)
    def call(): pass
    call()
    for wrong in (lambda: dashcam.span(name, name), lambda: dashcam.span(number),
                  lambda: span.set(text), lambda: span(text)):
        try: wrong()
        except TypeError: pass
for _ in range(10): once()
before = counts()
for _ in range(1000): once()
after = counts()
# One too many or too few each time would be 1000; others count in None, too.
grown = {repr(w): b - a for w, a, b in zip(watched, before, after) if abs(b - a) > 500}
assert not grown, grown
""")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("made", ["span", "request"])
@pytest.mark.parametrize("end", ["del chain", "chain.set(itself=chain); del chain; gc.collect()"])
def test_a_chain_of_any_length_is_released_without_recursion(bench: Bench, made: str, end: str) -> None:
    result = bench.python(f"""
import dashcam, gc
gone = []
class Last:
    def __del__(self): gone.append(self)
chain = dashcam.{made}("first", last=Last())
for at in range(200_000): chain = dashcam.{made}("next", at="a %d" % at, chain=chain)
{end}
assert len(gone) == 1
""")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("around", ["native.work(1, {})", "native.hooked({})", "native.seen({}, print)"])
def test_nested_objects_of_any_number_are_released_without_recursion(bench: Bench, around: str) -> None:
    result = bench.python(f"""
import threading, weakref
import dashcam
from dashcam import _native as native
assert dashcam.start(slow="9s")
def nested(count):
    "The outermost of so many objects, and weak references to some of them."
    async def innermost(): pass
    one = innermost()
    one.close()
    weak = [weakref.ref(one)]
    for at in range(count):
        one = {around.format("one")}
        if at in (48, 49, 50, 51, count - 1): weak.append(weakref.ref(one))
    assert len(weak) == 6 and len(set(map(id, (ref() for ref in weak)))) == 6
    return one, weak
def release():
    one, weak = nested(100_000)
    del one
    assert [ref() for ref in weak] == [None] * 6
    # Two beside each other, and with no more left waiting than before.
    (one, weak), (other, others) = nested(200), nested(100)
    pair = [one, other]
    del one, other
    del pair
    assert [ref() for ref in weak + others] == [None] * 12
    done.append(True)
done = []
threading.stack_size(256 << 10)
thread = threading.Thread(target=release)
thread.start()
thread.join()
assert done
""")
    assert result.returncode == 0, result.stderr


def test_objects_are_released_after_destructors_that_switch_greenlets(bench: Bench) -> None:
    result = bench.python("""
import weakref
import dashcam, greenlet
from dashcam import _native as native
assert dashcam.start(slow="9s")
main = greenlet.getcurrent()
class Switches:
    def __call__(self): pass
    def __del__(self): main.switch()
def release():
    one = native.hooked(Switches())
    del one
for _ in range(60):
    # Each destructor is suspended; the first to begin is the first to end.
    both = [greenlet.greenlet(release), greenlet.greenlet(release)]
    for _ in range(2):
        for one in both: one.switch()
    assert all(one.dead for one in both)
class Plain:
    def __call__(self): pass
held = Plain()
gone = weakref.ref(held)
one = native.hooked(held)
del held, one
assert gone() is None
""")
    assert result.returncode == 0, result.stderr


def test_a_chain_is_whole_for_those_who_find_it_while_it_is_released(bench: Bench) -> None:
    result = bench.python("""
import dashcam, gc
found, held = [], dashcam.span("held by others")
held.set(chain=dashcam.span("behind it", odd=object()))
class Odd:
    def __del__(self):
        found.extend(one for one in gc.get_objects() if type(one) is type(held) and one is not held)
        found.extend(one.name for one in found[:])
chain = dashcam.span("last", odd=object())
for name in ("third", "second"): chain = dashcam.span(name, chain=chain)
# Released in this order: the chain is taken off the first one before the program's code runs.
chain = dashcam.span("first", chain=chain, held=held, odd=Odd())
del chain
assert sorted(found[-4:]) == ["behind it", "last", "second", "third"], found
second = next(one for one in found if getattr(one, "name", "") == "second")
with second: pass
third = second.attributes["chain"]
assert third.attributes["chain"].name == "last" and held.attributes["chain"].name == "behind it"
del second, third, held
found.clear()
assert not [one for one in gc.get_objects() if type(one) is type(dashcam.span("x"))]
""")
    assert result.returncode == 0, result.stderr


def test_a_million_spans_take_no_memory_and_no_collection(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, gc, tracemalloc
        dashcam.start(switches=False)
        def spans(n):
            for i in range(n):
                with dashcam.span("s", rows=i, text="t"):
                    pass
                dashcam.event("e", rows=i)
        spans(1000)
        gc.collect()
        gc.disable()
        collections = gc.get_count()[0]
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        spans(1_000_000)
        after = tracemalloc.take_snapshot()
        grown = sum(d.size_diff for d in after.compare_to(before, "filename"))
        assert grown < 50_000, grown
        assert gc.get_count()[0] - collections < 100, gc.get_count()
    """)
    assert result.returncode == 0, result.stderr


def test_the_memory_that_is_kept_is_bounded(bench: Bench) -> None:
    result = bench.python("""
        import contextlib, dashcam, gc, tracemalloc
        dashcam.start()
        def many(n):
            with contextlib.ExitStack() as stack:
                for i in range(n): stack.enter_context(dashcam.span("s", i=i))
        many(10)
        tracemalloc.start()
        many(20_000)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        assert held < 200_000, held
    """)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("nature", NATURES)
def test_cycles_through_values_are_collected(bench: Bench, nature: str) -> None:
    result = bench.python("import dashcam\n" + NATURES[nature] + """
import gc, weakref
class Holder:
    def __str__(self): return "holder"
gc.disable()
def never_entered(holder): holder.span = dashcam.span("s", owner=holder)
def entered(holder):
    holder.span = dashcam.span("s", owner=holder)
    with holder.span: pass
def bound(holder):
    holder.span = dashcam.span("s", owner=holder)
    holder.leave = holder.span.__exit__
    holder.enter = holder.span.__enter__
def late(holder):
    holder.request = dashcam.request("r")
    holder.request.set(owner=holder)
def decorated(holder): holder.call = dashcam.span("s", owner=holder)(lambda: None)
for make in (never_entered, entered, bound, late, decorated):
    holder = Holder()
    make(holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None, make.__name__
""")
    assert result.returncode == 0, result.stderr


def test_code_that_runs_inside_of_a_span_may_do_what_it_likes(bench: Bench) -> None:
    result = bench.python("""
        import contextlib, dashcam, gc, threading
        dashcam.start(memory="8MiB")  # whole from the start
        class Nested:
            def __str__(self):
                with dashcam.request("inner", again="x"), dashcam.span("inner", v=[1]):
                    dashcam.event("inner", v=[2])
                gc.collect()
                return "nested"
        class Meddler:
            span = None
            def __str__(self):
                self.span.set(v="other", w=[3])
                return "meddler"
        class Leaver:
            def __init__(self, span): self.span = span
            def __str__(self):
                self.span.__exit__(None, None, None)
                return "leaver"
        class Dying:
            def __str__(self): return "dying"
            def __del__(self):
                with dashcam.span("at the end", v=[1]): pass
        for _ in range(200):
            with dashcam.span("outer", a=Nested(), b=Dying()), dashcam.request("r", a=Nested(), b=Dying()): pass
            meddler = Meddler()
            meddler.span = dashcam.span("meddled", v=meddler)
            with meddler.span: pass
            leaver = Leaver(dashcam.span("left"))
            leaver.span.set(v=leaver)
            with leaver.span: pass
            dashcam.event("e", v=Nested(), w=Dying())
        shared = dashcam.span("shared", a=1)
        def use():
            for i in range(5_000):
                with shared: shared.set(a=i, b=[i])
        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        # A span whose name and bound method outlive it.
        leave = dashcam.span("short" + "-lived").__exit__
        gc.collect()
        assert leave(None, None, None) is False
        stack = contextlib.ExitStack()
        stack.enter_context(dashcam.span("in a stack"))
        stack.close()
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert shown["damage"] == [] and shown["counts"]["spans"] >= 20_000


def test_generators_coroutines_threads_and_forks_keep_their_spans(bench: Bench) -> None:
    result = bench.python("""
        import asyncio, contextvars, dashcam, os, sys, threading
        from dashcam import _native
        dashcam.start(memory="8MiB")  # whole from the start
        def steps():
            with dashcam.request("generator") as request, dashcam.span("generator"):
                yield request.id
                yield request.id
        one, two = steps(), steps()
        assert next(one) != next(two)
        one.close()
        contextvars.copy_context().run(next, two)
        del two
        async def work(i):
            async def inner():
                with dashcam.span("coroutine", i=i): await asyncio.sleep(0)
            with dashcam.request("task") as request:
                await asyncio.gather(inner(), inner())
                assert _native.current_request() == request.id
        async def all_of_it():
            await asyncio.gather(*(work(i) for i in range(100)))
            cancelled = asyncio.ensure_future(work(0))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
        asyncio.run(all_of_it())
        def spans():
            for i in range(2_000):
                with dashcam.span("thread %d" % i, i=i): pass
        threads = [threading.Thread(target=spans) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with dashcam.request("forks"), dashcam.span("around", v="x"):
            child = os.fork()
            with dashcam.span("after", w="y"): pass
            if child == 0:
                path = dashcam.snap("child")
        if child == 0:
            sys.stdout.flush()
            os._exit(0 if dashcam.status()["on"] and path.exists() else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert shown["damage"] == []
    assert shown["counts"]["spans"] == 2 + 200 + 16_000 + 2


def test_a_recorder_that_starts_or_stops_inside_of_a_span_does_no_harm(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        for _ in range(3):
            with dashcam.request("r", v=[1]) as request, dashcam.span("s", v=[1]) as span:
                dashcam.start()
                span.set(w=[2])
                with dashcam.request("inner"), dashcam.span("t"):
                    dashcam.stop()
            assert dashcam._native.current_request() == 0
        dashcam.start()
        with dashcam.span("s"): pass
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr


OTHER_INTERPRETER = """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        other = interpreters.create()
        failed = interpreters.run_string(other, code)
        assert failed is None, failed
        interpreters.destroy(other)
"""


def test_another_interpreter_is_reported_and_continues(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        dashcam.start()
        code = "import dashcam\\ndashcam.start()\\nwith dashcam.span('x', v=[1]): pass"
        code += "\\ndashcam.counter('c').inc()\\nassert not dashcam.status()['on']"
""" + OTHER_INTERPRETER + """
        with dashcam.span("s", v=[1]): pass
        assert dashcam.status()["on"]
    """)
    assert result.returncode == 0, result.stderr
    reported = "calls of this interpreter are not recorded: another interpreter of this process holds"
    assert result.stderr.count(reported) == 1, result.stderr


def test_another_interpreter_of_a_program_that_knows_nothing_of_dashcam_is_left_alone(
    bench: Bench,
) -> None:
    program = bench.write("program.py", """
        code = "import os, sys"
""" + OTHER_INTERPRETER)
    result = bench.dashcam("run", "--", sys.executable, str(program))
    assert result.returncode == 0 and result.stderr == "", result.stderr
