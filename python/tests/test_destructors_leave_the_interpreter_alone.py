"""dashcam's objects may be collected inside of any call that allocates, up to CPython 3.11: the
program's variables and its heap are the same as without dashcam (see python/src/safe_point.rs)."""

from __future__ import annotations

import pytest
from conftest import Bench

PROGRAM = """
    import contextvars, gc, os, sys, types
    import dashcam
    from dashcam import _native as native
    assert dashcam.start(slow="9s")

    def in_a_cycle(made):
        cycle = [made]
        cycle.append(cycle)

    class ClosingIterator:  # as werkzeug keeps its own
        def __init__(self, parts): self._next, self._callbacks = iter(parts).__next__, []
        def __iter__(self): return self
        def __next__(self): return self._next()
    module = sys.modules["werkzeug.wsgi"] = types.ModuleType("werkzeug.wsgi")
    module.ClosingIterator = ClosingIterator

    def body():
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
        return native.wsgi_call(lambda environ, start: ClosingIterator([b"a"]), environ, print)

    class Wait:
        def __await__(self): yield self
    async def application(scope, receive, send): await Wait()
    def awaited():
        request = native.asgi_arrives("GET", "/")
        serving = native.asgi_serve(request, application, {"type": "http"}, None, print)
        serving.send(None)
        return serving

    def generator_in(around):
        def generator():
            with around("work", number=10 ** 6):
                yield
        running = generator()
        next(running)
        return running

    MADE = {
        "body": body,
        "awaited": awaited,
        "request": lambda: generator_in(dashcam.request),
        "span": lambda: generator_in(dashcam.span),
        "handle": lambda: [dashcam.counter("orders", tags={"kind": "a"}) for _ in range(3)],
    }

    made = MADE[os.environ["MADE"]]

    mine = contextvars.ContextVar("mine", default=0)
    others = [contextvars.ContextVar(f"other{number}") for number in range(12)]
    for other in others: other.set(object())

    def sets(value):
        mine.set(value)
        assert mine.get() == value
    def resets(value):
        token = mine.set(value)
        again = mine.set(-value)
        mine.reset(again)
        assert mine.get() == value
        mine.reset(token)
    def runs(value):
        context = contextvars.copy_context()
        context.run(mine.set, value)
        assert context[mine] == value
    def fills_a_dict(value):
        filled = {number: [number] for number in range(30)}
        filled[value] = value
        assert list(filled) == [*range(30), value] and filled[7] == [7]
    def grows_a_list(value):
        grown = [[value + number] for number in range(30)]
        grown.extend(map(list, [(value,)] * 5))
        assert grown[3] == [value + 3] and sorted(grown)[-1] == [value + 29]
    def makes_a_class(value):
        made = type("Made", (), {"value": value, "method": lambda self: [self.value]})
        assert made().method() == [value]
    def raises(value):
        try: raise KeyError([value])
        except KeyError as error: assert error.args == ([value],)
    def calls(value):
        def called(*args, **kwargs): return [args, kwargs]
        assert called(value, value=[value]) == [(value,), {"value": [value]}]
    CALLS = [sets, resets, runs, fills_a_dict, grows_a_list, makes_a_class, raises, calls]

    collected = []
    def note(phase, info): collected.append(info["collected"])
    gc.callbacks.append(note)
    for number in range(200):
        for call in CALLS:
            gc.disable()
            if "CLEARED" in os.environ: gc.callbacks[:] = [note]
            in_a_cycle(made())
            value = 10 ** 6 + number
            gc.set_threshold(gc.get_count()[0] + number % 9, 1, 1)
            gc.enable()
            call(value)
            gc.set_threshold(700, 10, 10)
            floats, ints = [float(k) for k in range(50)], [10 ** 6 + k for k in range(50)]
    gc.collect()
    assert sum(collected) > 0
    assert native.current_request() == 0
    print("whole")
"""


@pytest.mark.parametrize("made", ["body", "awaited", "request", "span", "handle"])
def test_a_collection_inside_of_any_call_changes_nothing(bench: Bench, made: str) -> None:
    # The checking allocator detects a double free at the next use of the memory.
    result = bench.python(PROGRAM, MADE=made, PYTHONMALLOC="debug")
    assert (result.returncode, result.stdout.strip()) == (0, "whole"), result.stderr


def test_a_program_may_clear_the_callbacks_of_the_collector(bench: Bench) -> None:
    result = bench.python(PROGRAM, MADE="request", CLEARED="before each call", PYTHONMALLOC="debug")
    assert (result.returncode, result.stdout.strip()) == (0, "whole"), result.stderr


def test_collections_are_recorded_again_with_the_next_request(bench: Bench) -> None:
    result = bench.python("""
        import gc
        import dashcam
        from dashcam import _native as native
        assert dashcam.start(slow="9s")
        before = list(gc.callbacks)
        gc.callbacks.clear()
        with dashcam.request("works"):
            assert native.current_request() != 0
            assert gc.callbacks == before
            gc.disable()
            gc.callbacks.clear()
            # The program's own collections are between bytecodes, and it asked for no other.
            with dashcam.request("inner") as inner:
                assert native.current_request() == inner.id
                assert gc.callbacks == before
        assert native.current_request() == 0
        print("whole")
    """)
    assert (result.returncode, result.stdout.strip()) == (0, "whole"), result.stderr


def test_a_request_that_was_dropped_is_recorded_as_ended_and_the_next_one_is_its_own(bench: Bench) -> None:
    result = bench.python("""
        import gc, sys, types
        import dashcam
        from dashcam import _native as native
        asked = []
        assert dashcam.start(slow="9s", when=lambda name, seconds, error: asked.append((name, error)))
        class ClosingIterator:
            def __init__(self): self._next, self._callbacks = iter(()).__next__, []
        module = sys.modules["werkzeug.wsgi"] = types.ModuleType("werkzeug.wsgi")
        module.ClosingIterator = ClosingIterator
        def call(path, body):
            environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
            return native.wsgi_call(lambda environ, start: body, environ, print)
        body = call("/dropped", ClosingIterator())
        assert native.current_request() != 0 and asked == []
        body.itself = body
        del body
        gc.collect()
        # No code of the program runs inside of the collection; its context is left as it is.
        assert native.current_request() == 0 and asked == []
        assert call("/next", [b"x"]) == [b"x"]
        assert asked == [("GET /dropped", False), ("GET /next", False)], asked
        print(dashcam.snap("x"))
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(bench.folder / result.stdout.strip())
    assert {request["name"]: request["count"] for request in shown["requests"]} == {"GET /dropped": 1, "GET /next": 1}


def test_the_type_of_an_error_is_recorded_before_the_program_can_rename_it(bench: Bench) -> None:
    # The predicate is asked late for a request that was dropped: while the next one ends by an error.
    result = bench.python("""
        import pyarrow
        import dashcam
        from dashcam import _native as native
        Kind = type("Kind%d" % 1, (Exception,), {})
        def when(name, seconds, error):
            if name == "dropped": Kind.__name__ = Kind.__qualname__ = "Renamed"
        assert dashcam.start(slow="9s", when=when)
        async def application(scope, receive, send):
            dropped = dashcam.request("dropped")
            dropped.__enter__()
            del dropped
            raise Kind
        request = native.asgi_arrives("GET", "/a")
        served = native.asgi_serve(request, application, {"path": "/a"}, None, None)
        try: served.send(None)
        except Kind: assert Kind.__name__ == "Renamed"
        path = dashcam.snap("x")
        print(pyarrow.table(dashcam.open(path).tables["attributes"]).to_pylist())
    """, PYTHONMALLOC="debug")
    assert result.returncode == 0, result.stderr
    assert "Kind1" in result.stdout, result.stdout


def test_an_exception_passes_the_last_reference_to_each_object_of_ours(bench: Bench) -> None:
    result = bench.python("""
        import types, warnings
        import dashcam
        from dashcam import _native as native
        warnings.simplefilter("ignore")
        assert dashcam.start(slow="9s")
        gone = []
        class Odd:
            "Calls code in its destructor, which raises and catches exceptions."
            def __del__(self):
                try: {}["missed"]
                except KeyError: gone.append(self)
            def __call__(self): pass
        class Awaitable:
            def __init__(self, odd): self.odd = odd
            def __await__(self): yield self.odd
        @types.coroutine
        def waits(odd): yield odd
        async def coroutine(odd):
            try: await waits(odd)
            finally: Odd()
        def begun(awaitable):
            awaitable.send(None)
            return awaitable
        def asked(awaitable):
            iterator = iter(awaitable.__await__())
            next(iterator)
            return iterator
        def sender(odd):
            async def application(scope, receive, send): kept.append(send)
            kept = []
            served = native.asgi_serve(native.asgi_arrives("GET", "/a"), application, {"path": "/a"}, None, odd)
            assert list(served.__await__()) == []
            return kept.pop()
        observer = lambda result: None
        MAKE = {
            "Passing": lambda odd: begun(native.seen(coroutine(odd), observer)),
            "never begun": lambda odd: native.seen(coroutine(odd), observer),
            "coroutine_wrapper": lambda odd: asked(native.seen(coroutine(odd), observer)),
            "of an awaitable": lambda odd: native.seen(Awaitable(odd), observer),
            "Steps": lambda odd: asked(native.seen(Awaitable(odd), observer)),
            "AsgiSend": sender,
            "Work": lambda odd: native.work(1, odd),
            "StandIn": lambda odd: native.hooked(odd, before=Odd()),
            "Span": lambda odd: dashcam.span("span", odd=odd),
            "Request": lambda odd: dashcam.request("request", odd=odd),
        }
        def drops(make):
            held = make(Odd())
            raise LookupError("passes")
        for kind, make in MAKE.items():
            gone.clear()
            try: drops(make)
            except LookupError as error: assert error.args == ("passes",) and error.__context__ is None, kind
            else: raise AssertionError(kind)
            assert gone, kind
    """, PYTHONMALLOC="debug")
    assert result.returncode == 0, result.stderr
