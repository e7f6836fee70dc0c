"""The coroutine of a hooked call is the bare one, in everything that a program can ask of it or do
with it, except for `type()`.

Each program runs its cases twice in one process, bare and then recorded (`compared`). The hooked
class is a stand-in with coroutine functions of every kind; the hook is the real one.
"""

from __future__ import annotations

import pytest
from compared import run
from conftest import Bench

BEGIN = """
    import copy, functools, gc, operator, pickle, weakref
    from dashcam import _native
    from dashcam._integrations import calls

    class Yields:
        def __init__(self, *values): self.values = values
        def __await__(self):
            got = []
            for value in self.values: got.append((yield value))
            return got
    class AsyncCursor:
        closed = []
        async def execute(self, query, params=None, *, step=None):
            "Runs a statement."
            try:
                if step is not None: return await step
                return query, params
            finally: self.closed.append(repr(sys.exc_info()[1]))
        async def executemany(self, query):
            while True:
                try: await Yields(query)
                except GeneratorExit: pass
    module = types.SimpleNamespace(__name__="psycopg.cursor_async", AsyncCursor=AsyncCursor)
    cursor = AsyncCursor()
    execute, executemany = cursor.execute, cursor.executemany
    def record(): calls.patch(_native, module)
    def hooked(*args, **kwargs): return cursor.execute(*args, **kwargs)
    def stepped(coroutine, sent=None):
        try: return "yielded", coroutine.send(sent)
        except StopIteration as end: return "returned", end.value
    def failed(call, *args, **kwargs):
        "How it ends, in words."
        try: return call(*args, **kwargs)
        except BaseException as error:
            frames = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)[1:]]
            return type(error).__name__, str(error), frames, repr(error.__context__), repr(error.__cause__)
    def after(case):
        "What was left behind in the coroutine's body."
        AsyncCursor.closed.clear()
        return case(), list(AsyncCursor.closed)
"""


def same(bench: Bench, cases: str) -> None:
    run(bench, BEGIN + cases + """
    compare({name: functools.partial(after, case) for name, case in cases.items()}, record=record)
    with dashcam.request("GET /"): assert type(hooked("q").close()) is type(None)
    """)


def test_it_answers_as_one(bench: Bench) -> None:
    same(bench, """
    def asked(state):
        coroutine = hooked("select 1", step=Yields(1, 2))
        if state != "created": stepped(coroutine)
        if state == "closed": coroutine.close()
        frame = coroutine.cr_frame
        return (kinds(coroutine), asyncio.iscoroutine(coroutine), inspect.isawaitable(coroutine),
                inspect.getcoroutinestate(coroutine), inspect.getcoroutinelocals(coroutine),
                frame and (frame.f_code is AsyncCursor.execute.__code__, frame.f_lineno, frame.f_back),
                coroutine.cr_code is AsyncCursor.execute.__code__, type(coroutine.cr_await), coroutine.cr_origin,
                coroutine.cr_running, coroutine.__name__, coroutine.__qualname__, repr(coroutine), str(coroutine),
                f"{coroutine}", coroutine == coroutine, coroutine != 5, hash(coroutine) == hash(coroutine),
                sys.getsizeof(coroutine), sys.getrefcount(coroutine), bool(coroutine), coroutine.__doc__,
                gc.is_tracked(coroutine), weakref.ref(coroutine)() is coroutine, weakref.getweakrefcount(coroutine),
                repr(type(coroutine)), type(coroutine).__name__, type(coroutine).__qualname__, type(coroutine).__module__,
                coroutine.close())
    def origin():
        sys.set_coroutine_origin_tracking_depth(3)
        try: coroutine = hooked("q")
        finally: sys.set_coroutine_origin_tracking_depth(0)
        return coroutine.cr_origin, coroutine.close()
    cases = {state: functools.partial(asked, state) for state in ("created", "suspended", "closed")}
    cases["origin"] = origin
    """)


def test_what_it_cannot_do_is_refused_in_the_same_words(bench: Bench) -> None:
    same(bench, """
    def with_it(coroutine):
        with coroutine: pass
    async def async_with_it(coroutine):
        async with coroutine: pass
    async def async_for_it(coroutine):
        async for one in coroutine: pass
    def driven(function): return lambda coroutine: function(coroutine).send(None)
    def renamed(coroutine):
        coroutine.__name__, coroutine.__qualname__ = "other", "another"
        return repr(coroutine), coroutine.__name__
    def with_an_argument(coroutine):
        try: return coroutine.__await__(1)
        except TypeError: return "refused"
    def with_a_size(coroutine):  # before 3.11 it is object's, which the words name
        try: return type(coroutine).__sizeof__(coroutine, 1)
        except TypeError: return "refused"
    refused = {
        "await 1": with_an_argument, "size 1": with_a_size,
        "iter": iter, "len": len, "call": lambda c: c(), "item": lambda c: c[0], "add": lambda c: c + 1, "float": float,
        "index": operator.index, "lt": lambda c: c < c, "in": lambda c: 1 in c, "reversed": reversed, "copy": copy.copy,
        "deepcopy": copy.deepcopy, "pickle": pickle.dumps, "pickle 0": lambda c: pickle.dumps(c, 0), "vars": vars,
        "attribute": lambda c: c.fetchall, "set": lambda c: setattr(c, "own", 1), "delete": lambda c: delattr(c, "own"),
        "delete name": lambda c: delattr(c, "__name__"), "name 5": lambda c: setattr(c, "__name__", 5), "rename": renamed,
        "class": lambda c: setattr(c, "__class__", int), "frame": lambda c: setattr(c, "cr_frame", 1), "with": with_it,
        "async with": driven(async_with_it), "async for": driven(async_for_it),
        "for": lambda c: [x for x in c], "format": lambda c: format(c, "x"),
        "__next__": lambda c: c.__next__, "__iter__": lambda c: c.__iter__, "anext": lambda c: c.__anext__,
        "map": lambda c: list(map(str, c)), "join": "".join, "dict": dict, "aiter": lambda c: c.__aiter__(),
    }
    def refuse(call):
        coroutine = hooked("q")
        try: return failed(call, coroutine)
        finally: coroutine.close()
    cases = {name: functools.partial(refuse, call) for name, call in refused.items()}
    """)


def test_its_steps_are_the_same(bench: Bench) -> None:
    same(bench, """
    class Own(Exception): pass
    def steps(*each):
        def case():
            coroutine = hooked("q", step=Yields(1, 2, 3))
            return [failed(getattr(coroutine, name), *args) for name, *args in each], inspect.getcoroutinestate(coroutine)
        return case
    # Made for each case: a traceback grows.
    def own(): return Own("x")
    def stops(): return StopAsyncIteration("x")
    LATE, ERROR = (own, stops), "the same error"
    sequences = [
        [("send", None)] * 5, [("send", 1)], [("send", None), ("send", 2), ("send", 3), ("send", 4)], [("close",)] * 2,
        [("send", None), ("close",), ("send", None), ("close",)], [("throw", Own)], [("throw", own)],
        [("send", None), ("throw", Own)], [("send", None), ("throw", ERROR), ("throw", ERROR)],
        [("throw", 5)], [("throw", int)], [("throw",)], [("send", None), ("throw",)], [("send", None), ("throw", 5), ("send", None)],
        [("send",)], [("send", 1, 2)], [("close", 1)], [("throw", Own, "x", None, None)], [("throw", Own, None)],
        [("throw", Own, "text", None)], [("throw", ERROR, "text")], [("send", None), ("throw", StopIteration)],
        [("send", None), ("throw", GeneratorExit)], [("send", None), ("throw", KeyboardInterrupt)], [("throw", Own, "x", 7)],
        [("send", None), ("throw", asyncio.CancelledError), ("send", None)], [("throw", stops)],
    ]
    cases = {f"{number}: {[name for name, *args in each]}": steps(*each) for number, each in enumerate(sequences)}
    def by_keyword(name):
        coroutine = hooked("q")
        try: return failed(getattr(coroutine, name), value=None)
        finally: coroutine.close()
    for name in ("send", "throw", "close"): cases[name + " by keyword"] = functools.partial(by_keyword, name)
    def methods():
        coroutine = hooked("q")
        found = [(method.__name__, method.__qualname__, method.__self__ is coroutine, type(method).__name__,
                  repr(method).partition(" object at ")[0], method.__doc__, method.__text_signature__, method.__module__)
                 for method in (coroutine.send, coroutine.throw, coroutine.close)]
        return found, coroutine.close()
    def ignores_its_end():
        coroutine = cursor.executemany("q")
        return stepped(coroutine), failed(coroutine.close), failed(coroutine.send, None), coroutine.cr_frame is None
    def itself():
        async def again():
            try: return await coroutine
            except RuntimeError as error: return repr(error)
        coroutine = hooked("q", step=again())
        return failed(coroutine.send, None)
    def running():
        async def inside(): return coroutine.cr_running, failed(coroutine.send, None), failed(coroutine.close), failed(coroutine.throw, Own)
        coroutine = hooked("q", step=inside())
        return failed(coroutine.send, None)
    def raises_stop():
        async def inside(): raise StopIteration("x")
        return failed(hooked("q", step=inside()).send, None)
    def returns(value):
        async def inside(): return value
        return failed(hooked("q", step=inside()).send, None), asyncio.run(hooked("q", step=inside()))
    def returns_on_close():
        async def inside():
            try: await Yields(1)
            except GeneratorExit: return "closed"
        coroutine = hooked("q", step=inside())
        return stepped(coroutine), failed(coroutine.close)
    def fails_on_close():
        async def inside():
            try: await Yields(1)
            except GeneratorExit: raise Own("while it is closed")
        coroutine = hooked("q", step=inside())
        return stepped(coroutine), failed(coroutine.close)
    for case in (methods, ignores_its_end, itself, running, raises_stop, returns_on_close, fails_on_close): cases[case.__name__] = case
    for value in (None, (), (1, 2), StopIteration(1), ValueError("v"), cursor.closed): cases[f"returns {value!r}"] = functools.partial(returns, value)
    """)


def test_everything_that_awaits_takes_it(bench: Bench) -> None:
    same(bench, """
    import contextvars, threading
    from concurrent.futures import Future
    context = contextvars.ContextVar("context", default=0)
    async def slow(): await asyncio.sleep(0); return "slow"
    async def wrong(): await asyncio.sleep(0); raise LookupError("wrong")
    async def for_ever(): await asyncio.Event().wait()
    async def plain(): return await hooked("q", step=slow())
    async def by_task(): return await asyncio.create_task(hooked("q", step=slow()))
    async def named_task():
        task = asyncio.create_task(hooked("q", step=for_ever()), name="own")
        await asyncio.sleep(0)
        stack = [(f.f_code.co_name, f.f_lineno) for f in task.get_stack()]
        said, out = repr(task), io.StringIO()
        task.print_stack(file=out)
        coroutine = task.get_coro()
        facts = inspect.getcoroutinestate(coroutine), coroutine.cr_frame.f_lineno, repr(coroutine)
        task.cancel("with words")
        try: await task
        except asyncio.CancelledError as error: return stack, said, out.getvalue(), facts, frames(error), task.cancelled(), repr(task)
    def frames(error): return repr(error), [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    async def gathered(): return await asyncio.gather(hooked("a", step=slow()), hooked("b", step=wrong()), hooked("c"), return_exceptions=True)
    async def waited():
        try: return await asyncio.wait_for(hooked("q", step=for_ever()), 0.001)
        except asyncio.TimeoutError as error: return type(error).__name__
    async def shielded(): return await asyncio.shield(hooked("q", step=slow()))
    async def ensured(): return await asyncio.ensure_future(hooked("q", step=slow()))
    async def from_a_thread():
        loop, got = asyncio.get_running_loop(), []
        def ask(): got.append(asyncio.run_coroutine_threadsafe(hooked("q", step=slow()), loop).result())
        await loop.run_in_executor(None, ask)
        return got
    async def twice():
        coroutine = hooked("q", step=slow())
        return await coroutine, await coroutine
    async def at_once():
        coroutine = hooked("q", step=slow())
        async def awaits(): return await coroutine
        return [frames(e) if isinstance(e, Exception) else e for e in await asyncio.gather(awaits(), awaits(), return_exceptions=True)]
    @types.coroutine
    def old_style(): return (yield from hooked("q", step=slow()))
    class Awaits:
        def __await__(self): return hooked("q", step=slow()).__await__()
    class YieldsFrom:
        def __await__(self): return (yield from hooked("q", step=slow()).__await__())
    async def dunder(): return await Awaits(), await YieldsFrom()
    def wrapper():
        coroutine = hooked("q", step=Yields(1, 2))
        steps = coroutine.__await__()
        return (type(steps).__name__, sorted(set(dir(steps)) - {"__module__"}), inspect.isawaitable(steps), iter(steps) is steps, next(steps), steps.send(4), failed(next, steps), failed(steps.close),
                failed(steps.throw, LookupError("x")), failed(steps.send), repr(steps).partition(" at ")[0])
    async def old(): return await old_style()
    async def in_context():
        context.set(1)
        async def inside(): context.set(context.get() + 1); return context.get()
        return await hooked("q", step=inside()), context.get(), await asyncio.create_task(hooked("q", step=inside())), context.get()
    def asynchronously(function, debug=False):
        def case(): return asyncio.run(function(), debug=debug)
        return case
    each = (plain, by_task, named_task, gathered, waited, shielded, ensured, from_a_thread, twice, at_once, dunder, old, in_context)
    cases = {function.__name__: asynchronously(function) for function in each}
    cases |= {f"{function.__name__}, debug": asynchronously(function, True) for function in (by_task, twice, old)}
    cases["run"] = lambda: asyncio.run(hooked("q", step=slow()))
    cases["wrong"] = lambda: asyncio.run(hooked("q", step=wrong()))
    cases["wrapper"] = wrapper
    def other_loop():
        loop = asyncio.new_event_loop()
        try: return loop.run_until_complete(hooked("q", step=slow()))
        finally: loop.close()
    cases["other loop"] = other_loop
    if sys.version_info >= (3, 11):
        async def grouped():
            async with asyncio.TaskGroup() as group: task = group.create_task(hooked("q", step=slow()))
            return task.result()
        async def grouped_wrong():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(hooked("q", step=wrong()))
                    group.create_task(hooked("q", step=for_ever()))
            except BaseExceptionGroup as errors: return [frames(e) for e in errors.exceptions]
        cases |= {function.__name__: asynchronously(function) for function in (grouped, grouped_wrong)}
    """)


def test_its_end_by_the_collector_is_the_same(bench: Bench) -> None:
    same(bench, """
    unraised = []
    sys.unraisablehook = lambda one: unraised.append((type(one.exc_value).__name__, str(one.exc_value), str(one.err_msg), one.object is not None))
    def then(case):
        unraised.clear()
        said = case()
        gc.collect()
        return said, list(unraised)
    def dropped(): hooked("q")
    def dropped_by_await():
        async def forgets(): cursor.execute("q")
        return asyncio.run(forgets())
    def suspended():
        coroutine = hooked("q", step=Yields(1))
        stepped(coroutine)
        order = []
        mark = weakref.ref(coroutine, lambda ref: order.append(list(cursor.closed)))
        del coroutine
        return order, mark() is None
    def in_a_cycle():
        class Step(Yields): pass
        step = Step(1, 2)
        coroutine = step.coroutine = hooked("q", step=step)
        stepped(coroutine)
        mark = weakref.ref(step)
        del coroutine, step
        gc.collect()
        return mark() is None
    def ignores_its_end(): stepped(cursor.executemany("q"))
    def fails_at_its_end():
        async def inside():
            try: await Yields(1)
            finally: raise LookupError("at its end")
        stepped(hooked("q", step=inside()))
    def freed_at_once():
        class Mark: pass
        mark = Mark()
        dead = weakref.ref(mark)
        async def asks():
            nonlocal mark
            given, mark = mark, None
            await cursor.execute(given)
            del given
            return dead() is None
        return asyncio.run(asks())
    def lost_task():
        async def main():
            task = asyncio.create_task(hooked("q", step=asyncio.Event().wait()))
            await asyncio.sleep(0)
            mark = weakref.ref(task.get_coro())
            task.cancel()
            del task
            for _ in range(3): await asyncio.sleep(0)
            return mark() is None
        return asyncio.run(main())
    each = (dropped, dropped_by_await, suspended, in_a_cycle, ignores_its_end, fails_at_its_end, freed_at_once, lost_task)
    cases = {case.__name__: functools.partial(then, case) for case in each}
    """)


@pytest.mark.parametrize("library", ["trio", "anyio", "tornado", "uvloop"])
def test_other_loops_take_it(bench: Bench, library: str) -> None:
    pytest.importorskip(library)
    same(bench, f"    LIBRARY = {library!r}" + """
    async def slow(): await asyncio.sleep(0); return "slow"
    async def asks(): return await hooked("q", step=slow())
    def run_by():
        if LIBRARY == "trio":
            import trio
            async def pause(): await trio.sleep(0); return "slow"
            return trio.run(functools.partial(hooked, "q", step=pause()))
        if LIBRARY == "anyio":
            import anyio
            return anyio.run(functools.partial(cursor.execute, "q", step=slow()))
        if LIBRARY == "uvloop":
            import uvloop
            return uvloop.run(hooked("q", step=slow()))
        from tornado import gen, ioloop
        @gen.coroutine
        def old_style():
            one = yield hooked("q", step=slow())
            many = yield [hooked("q", step=slow()), hooked("r")]
            return one, many
        return ioloop.IOLoop().run_sync(old_style)
    outcome(run_by, True)  # a library may warn of its first loop alone
    cases = {"runs": run_by}
    """)
