"""An ASGI server and its application see nothing of the request around a call, except for its
end.
"""

from __future__ import annotations

import pytest
from asgi_program import BEGIN, run
from conftest import Bench


def test_the_response_ends_the_request_and_not_the_application(bench: Bench) -> None:
    run(bench, """
    async def application(scope, receive, send):
        assert scope == {"path": "/a"} and await receive() == {"type": "http.request"}
        request = native.current_request()
        assert request
        assert await send(START) is None and open_now()
        for _ in range(3): await send(PART)
        assert open_now() and ended == []
        await send(BODY)
        assert not open_now() and ended == [("a", False)]
        await asyncio.sleep(0.01)  # what follows is not the client's wait
    assert asyncio.run(served(application)) is None
    assert reported == [START, PART, PART, PART, BODY] and ended == [("a", False)]
    # A response that was never finished ends with the application.
    async def unfinished(scope, receive, send): await send(START)
    asyncio.run(served(unfinished, "/b"))
    assert ended[1:] == [("b", False)]
    """)


def test_a_reply_of_500_and_more_is_a_failure_once_the_server_took_it(bench: Bench) -> None:
    run(bench, """
    def starts(*messages):
        async def application(scope, receive, send):
            for message in messages:
                try: await send(message)
                except LookupError: pass
        return application
    refused = {"refuse": LookupError()}
    asyncio.run(served(starts({**START, "status": 503}, BODY), "/down"))
    asyncio.run(served(starts({**START, "status": 503, **refused}, START, BODY), "/refused"))
    asyncio.run(served(starts({**START, "status": 500}, {**START, **refused}, BODY), "/stays"))
    asyncio.run(served(starts({**START, "status": 500}, START, BODY), "/again"))
    asyncio.run(served(starts(START, {**BODY, **refused}, {**START, "status": 500}), "/late"))
    # What is no message is the server's to refuse.
    odd = [{}, {"type": 7}, {"type": "http.response.start"}, {"type": "http.response.start", "status": "x"},
           {"type": "\\udc80"}, types.MappingProxyType(dict(START)), {**BODY, "more_body": []}]
    asyncio.run(served(starts(*odd), "/odd"))
    assert ended == [("down", True), ("refused", False), ("stays", True), ("again", False),
                     ("late", True), ("odd", False)], ended
    """)


def test_errors_pass_as_they_are_with_the_programs_frames_only(bench: Bench) -> None:
    run(bench, """
    class Odd(KeyError): pass
    def at_once(scope, receive, send): raise Odd("x")
    async def later(scope, receive, send):
        await asyncio.sleep(0.001)
        raise Odd("x")
    async def after_start(scope, receive, send):
        await send(START)
        raise Odd("x")
    async def by_the_server(scope, receive, send): await send({**BODY, "refuse": Odd("x")})
    async def ends(scope, receive, send): raise SystemExit(3)
    for application in (at_once, later, after_start, by_the_server):
        try: asyncio.run(served(application))
        except Odd as error: caught = error
        else: raise AssertionError("it was swallowed")
        frames = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
        at = frames.index("run", frames.index("served"))
        wanted = {at_once: ["call", "at_once"], by_the_server: ["by_the_server", "send"]}
        assert frames[at + 1:] == wanted.get(application, [application.__name__]), frames
        assert type(caught) is Odd and caught.args == ("x",) and caught.__context__ is None
        assert ended.pop() == ("a", True) and ended == [], ended
    async def watched():
        try: await call(ends)
        except SystemExit as error: return error.code
    assert asyncio.run(watched()) == 3 and ended == [("a", True)]
    """)


@pytest.mark.parametrize("kind", ["Odd", "CancelledError", "GeneratorExit", "TypeError"])
def test_the_kind_of_an_error_is_recorded(bench: Bench, kind: str) -> None:
    code = BEGIN.replace('slow="9s", when=when', f'slow="9s", on_error="{kind}", post="10ms"')
    result = bench.python(code + f"""
    class Odd(Exception): pass
    async def raises(scope, receive, send): raise Odd
    async def waits(scope, receive, send): await asyncio.sleep(30)
    async def main():
        for application in (raises, waits, waits, lambda *given: 5):
            coroutine = call(application)
            try:
                if application is raises: await coroutine
                elif application is not waits: await coroutine
                elif "{kind}" == "CancelledError": await asyncio.wait_for(coroutine, 0.01)
                else:
                    coroutine.send(None)
                    coroutine.close()
            except (Odd, TypeError, asyncio.TimeoutError): pass
    asyncio.run(main())
    import os, time
    for _ in range(100):  # for its post-trigger time
        if os.path.exists("captures") and os.listdir("captures"): break
        time.sleep(0.1)
    """)
    assert result.returncode == 0, result.stderr
    assert bench.show(bench.wait_captures()[0])["meta"]["reason"] == f"error: {kind} in GET /a"


def test_a_cancelled_task_is_cancelled_where_it_waits(bench: Bench) -> None:
    run(bench, """
    seen = []
    async def waits(scope, receive, send):
        try: await asyncio.sleep(30)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            assert open_now()
            await asyncio.sleep(0.001)  # cleans up
            raise
    async def sends(scope, receive, send):
        await send(START)
        try: await send({**BODY, "wait": 30})
        except asyncio.CancelledError: seen.append("sending")
        assert open_now()
        await send(BODY)
    async def outlives(scope, receive, send):
        try: await asyncio.wait_for(asyncio.sleep(30), 0.01)
        except asyncio.TimeoutError: await send(BODY)
        return "done"
    async def cancelled(application):
        async def run(): return await call(application)
        task = asyncio.ensure_future(run())
        await asyncio.sleep(0.02)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True)
    error, = asyncio.run(cancelled(waits))
    assert type(error) is asyncio.CancelledError and seen == [()], (error, seen)
    assert asyncio.run(cancelled(sends)) == [None] and seen == [(), "sending"]
    assert asyncio.run(served(outlives)) == "done"
    assert ended == [("a", True), ("a", False), ("a", False)], ended
    """)


def test_it_is_seen_as_a_coroutine(bench: Bench) -> None:
    run(bench, """
    checks = [inspect.iscoroutinefunction, asyncio.iscoroutinefunction][:2 if sys.version_info < (3, 14) else 1]
    async def application(scope, receive, send):
        for check in checks: assert check(send), check
        assert send.__name__ == "send" and not hasattr(send, "nothing")
        # Of what the server gives only the end of the response is looked at.
        first = send(START)
        assert type(first) is types.CoroutineType
        await first
        await asyncio.gather(send(PART), asyncio.create_task(send(PART)))
        await asyncio.wait_for(send(PART), 5)
        last = send(BODY)
        assert isinstance(last, collections.abc.Coroutine) and asyncio.iscoroutine(last)
        assert inspect.isawaitable(last) and open_now()
        await asyncio.create_task(last)
        assert ended == [("a", False)]
        for again in (last.__await__().__next__, lambda: last.send(None)):
            try: again()
            except RuntimeError as error: assert "already awaited" in str(error)
            else: raise AssertionError("twice")
        return "x"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert asyncio.run(served(application)) == "x"
    async def direct(): return await asyncio.create_task(call(application_of(7)))
    def application_of(value):
        async def application(scope, receive, send): return value
        return application
    assert asyncio.run(direct()) == 7
    for value in ((1, 2), (), StopIteration(3), ValueError("x"), [], False):
        assert asyncio.run(served(application_of(value))) is value
    """)


def test_an_awaitable_that_is_no_coroutine_answers_as_itself(bench: Bench) -> None:
    run(bench, """
    class Awaitable:
        "Such as a server's send may return."
        def __init__(self): self.sent, self.asked = 3, 0
        def __await__(self):
            self.asked += 1
            yield from asyncio.sleep(0).__await__()
            return self.sent
        def __repr__(self): return "<sending>"
    class Itself:
        def __await__(self): return self
        __iter__ = __await__
        def __next__(self): raise StopIteration(5)
    class Compared(Itself):
        __slots__ = ()
        def __eq__(self, other): return other == 5
    class Coroutine(Itself):
        def send(self, value, *more): raise StopIteration(6)
        def throw(self, *raised): raise raised[0]
        def close(self): return "closed"
    class Closes(Awaitable):
        "These are no steps."
        def send(self, message, urgent=False): return message, urgent
        def close(self): return "closed"
    @types.coroutine
    def generator(): yield
    def answers(one):
        def asked(name):
            try: found = getattr(one, name)
            except AttributeError as error: return str(error)
            return type(found).__name__ if name not in ("send", "throw", "close") else callable(found)
        def hashed():
            try: return hash(one)
            except TypeError as error: return str(error)
        classes = [getattr(collections.abc, name) for name in collections.abc.__all__ if name != "ByteString"]
        names = dir(one)
        return (names, type(one).__name__, type(one).__qualname__, type(one).__module__, repr(one), str(one), hashed(),
                [hasattr(type(one), name) for name in ("__await__", "__iter__", "__next__", "send", "throw", "close")],
                [asked(name) for name in (*names, "send", "throw", "close", "cr_code", "done") if name[:2] != "__"],
                [isinstance(one, kind) for kind in classes], [issubclass(type(one), kind) for kind in classes if "Hash" not in str(kind)],
                [(name, is_it(one)) for name, is_it in inspect.getmembers(inspect, callable) if name.startswith("is") and name != "iskeyword"])
    async def main():
        future = asyncio.get_running_loop().create_future()
        objects = (Awaitable(), Itself(), Compared(), Coroutine(), Closes(), generator(), future, asyncio.ensure_future(asyncio.sleep(0)))
        for made in objects:
            seen = call(lambda *given: made)
            assert type(seen) is not type(made) and seen.__class__ is type(made)  # or nothing is shown here
            for one, other in zip(answers(made), answers(seen)): assert one == other, (made, one, other)
            assert seen == made and made == seen and not seen != made
            if hasattr(made, "__dict__"):
                seen.set = 1
                assert made.set == 1
                del seen.set
                assert not hasattr(made, "set")
        made = Awaitable()
        seen = call(lambda *given: made)
        assert made.asked == 0 and await seen == 3 and made.asked == 1 and await seen == 3 and made.asked == 2
        assert type(seen.__await__()).__name__ == "generator" and seen.__await__().gi_code is Awaitable.__await__.__code__
        assert call(lambda *given: Closes()).send("a", urgent=True) == ("a", True) and open_now() == False
        assert await asyncio.ensure_future(call(lambda *given: Coroutine())) == await asyncio.ensure_future(Coroutine())
        seen = call(lambda *given: Coroutine())
        assert seen.close() == "closed"
        seen, done = call(lambda *given: future), []
        seen.add_done_callback(lambda found: done.append(found is future))
        assert asyncio.isfuture(seen) and asyncio.ensure_future(seen) is seen and not seen.done()
        future.set_result(5)
        assert await asyncio.wait_for(seen, 9) == 5 and seen.result() == 5 and await asyncio.gather(seen) == [5]
        await asyncio.wait({seen})
        assert done == [True]
        # The object lives as long as what represents it, and no longer.
        gone = []
        one = Awaitable()
        weakref.finalize(one, gone.append, 1)
        seen = call(lambda *given, one=one: one)
        del one
        await seen
        assert gone == []
        del seen
        gc.collect()
        assert gone == [1]
        # A type may go.
        for _ in range(200):
            class Each(Awaitable): pass
            seen = call(lambda *given: Each())
            assert await seen == 3
            weakref.finalize(Each, gone.append, 2)
            del Each, seen
            gc.collect()
        assert gone == [1] + [2] * 200, gone
        class Entered(Awaitable):
            async def __aenter__(self): return 7
            async def __aexit__(self, *raised): pass
        # What is more than an awaitable is handed over as it is.
        made = Entered()
        assert call(lambda *given: made) is made and not open_now()
        async with call(lambda *given: made) as entered: assert entered == 7
    asyncio.run(main())
    """)


def test_the_request_ends_with_an_awaitable_that_is_no_coroutine(bench: Bench) -> None:
    run(bench, """
    class Awaitable:
        def __init__(self, coroutine): self.coroutine = coroutine
        def __await__(self): return self.coroutine.__await__()
    class Fails:
        def __await__(self): raise LookupError("no")
    async def works(fails):
        await asyncio.sleep(0)
        assert open_now()
        if fails: raise LookupError("no")
    @types.coroutine
    def generator(fails): yield from works(fails)
    async def main():
        shapes = (lambda fails: Awaitable(works(fails)), generator, lambda fails: asyncio.ensure_future(works(fails)))
        for made in shapes:
            for fails in (False, True):
                ended.clear()
                try: await served(lambda *given: made(fails))
                except LookupError: assert fails
                else: assert not fails
                native.request_end(native.request_begin("GET /next"))
                assert ended[0] == ("a", fails), (made, ended)
        ended.clear()
        try: await served(lambda *given: Fails())
        except LookupError: assert ended == [("a", True)], ended
    asyncio.run(main())
    """)


def test_an_application_may_be_called_by_another_that_is_observed(bench: Bench) -> None:
    """As a framework's under a server's: both are called before the request begins."""
    run(bench, """
    class Awaitable:
        def __init__(self, inner): self.inner = inner
        def __await__(self): return self.inner.__await__()
    @types.coroutine
    def generator(): yield from application()
    async def application(*given):
        await asyncio.sleep(0)
        opened.append(open_now())
        return 5
    opened, scope = [], {"type": "http", "method": "GET", "path": "/a", "headers": []}
    async def main():
        for inner in (application, generator, lambda *given: Awaitable(application())):
            bare = inner()
            framework = lambda *given: native.asgi_call(lambda *given: inner(), *given)
            ended.clear()
            made = native.asgi_call(framework, scope, receive, send)
            assert type(made) is not type(bare) and type(made).__name__ == type(bare).__name__ and made.__class__ is type(bare)
            assert repr(made).split(" at ")[0] == repr(bare).split(" at ")[0] and dir(made) == dir(bare)
            async def run(one): return await one
            assert await asyncio.ensure_future(run(made)) == await asyncio.ensure_future(run(bare))
            assert ended == [("a", False)] and opened == [True, False], (ended, opened)
            opened.clear()
    asyncio.run(main())
    """)


def test_an_application_may_be_called_by_names(bench: Bench) -> None:
    run(bench, """
    seen = []
    async def application(*, send, scope, receive):
        seen.append((scope, receive is not None, open_now(), inspect.stack()[1].function))
        await send(START)
        await send(BODY)
        seen.append(open_now())
    async def main():
        for kind in ("http", "websocket"):
            scope = {"type": kind, "method": "GET", "path": "/a", "headers": []}
            made = native.asgi_call(application, receive=receive, scope=scope, send=send)
            async def server(): await made
            await asyncio.ensure_future(server())
            assert seen == [(scope, True, kind == "http", "server"), False] and reported[-2:] == [START, BODY], (kind, seen)
            seen.clear()
        assert ended == [("a", False)], ended
        for wrong in ({}, {"scope": scope}, {"scope": scope, "send": send}):
            try: native.asgi_call(application, **wrong)
            except TypeError as error: assert "application() missing" in str(error), error
    asyncio.run(main())
    """)


def test_all_that_can_be_awaited_can_be_given(bench: Bench) -> None:
    run(bench, """
    class Awaitable:
        def __await__(self):
            yield from asyncio.sleep(0.001).__await__()
            return 1
    class Plain:
        "Its iterator has neither send nor throw nor close."
        def __await__(self): return self
        def __iter__(self): return self
        def __next__(self):
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps > 3: raise StopIteration(2)
    @types.coroutine
    def generator():
        yield
        return 3
    async def main():
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, future.set_result, 4)
        for made, wanted in ((Awaitable(), 1), (Plain(), 2), (generator(), 3), (future, 4)):
            async def run(): return await call(lambda *given: made)
            assert await asyncio.create_task(run()) == wanted
        class Bad:
            def __await__(self): return 5
        class Raises:
            def __await__(self): raise LookupError("no")
        def gives(): yield
        for made, kind in ((6, TypeError), (None, TypeError), (Bad(), TypeError), (gives(), TypeError),
                           (Raises(), LookupError)):
            async def run(): return await call(lambda *given: made)
            async def bare(): return await made
            try: await bare()
            except kind as error: wanted = str(error)
            try: await asyncio.create_task(run())
            except kind as error: assert str(error) == wanted, (error, wanted)
            else: raise AssertionError(made)
        # A generator that is no longer awaited may be, and what has no `throw` is left by an exception.
        for made in (generator(), Plain()):
            seen = call(lambda *given: made)
            seen.__await__() if hasattr(made, "__await__") else None
            assert [hasattr(seen, name) for name in ("send", "throw", "close")] == [isinstance(made, types.GeneratorType)] * 3
            async def waits(): return await seen
            task = waits()
            task.send(None)
            try: task.throw(LookupError("a"))
            except LookupError as error: assert [f.name for f in traceback.extract_tb(error.__traceback__)][1] == "waits"
            else: raise AssertionError(made)
    asyncio.run(main())
    """)


def test_a_request_ends_with_a_task_that_is_thrown_away(bench: Bench) -> None:
    run(bench, """
    warnings.simplefilter("ignore")
    events = []
    def all_ended():
        # The predicate is asked by the next request: no code of the program runs inside of a destructor.
        native.request_end(native.request_begin("GET /next"))
        return [reported for reported in ended if reported[0] != "next"]
    async def waits(scope, receive, send):
        try: await asyncio.sleep(30)
        finally: events.append(open_now())
    async def main():
        # Closed.
        coroutine = call(waits)
        coroutine.send(None)
        coroutine.close()
        coroutine.close()
        assert events == [True] and all_ended() == [("a", True)], (events, ended)
        # Dropped while it waits, and never begun.
        coroutine = call(waits, "/b")
        coroutine.send(None)
        del coroutine
        call(waits, "/c")
        assert all_ended()[1:] == [("b", True), ("c", True)], ended
        # In a cycle that nobody holds.
        class Held: pass
        async def cycle(scope, receive, send):
            held = Held()
            held.task, held.send = asyncio.current_task(), send
            marks.append(weakref.ref(held))
            await asyncio.get_running_loop().create_future()
        marks = []
        async def run(): await call(cycle, "/d")
        asyncio.create_task(run())
        await asyncio.sleep(0.01)
        assert marks[0]() is not None
        asyncio.get_running_loop().set_exception_handler(lambda *reported: None)
        gc.collect()
        assert marks[0]() is None and all_ended()[3:] == [("d", True)], ended
        # A server that closes while the application refuses to go.
        async def stubborn(scope, receive, send):
            try: await asyncio.sleep(30)
            except GeneratorExit: await asyncio.sleep(1)
        coroutine = call(stubborn, "/e")
        coroutine.send(None)
        try: coroutine.close()
        except RuntimeError as error: assert "ignored GeneratorExit" in str(error)
        else: raise AssertionError("closed")
        assert all_ended()[4:] == [("e", True)], ended
    asyncio.run(main())
    """)


def test_tasks_at_the_same_time_keep_their_requests_apart(bench: Bench) -> None:
    run(bench, """
    seen = set()
    async def application(scope, receive, send):
        mine = native.current_request()
        seen.add(mine)
        await send(START)
        for _ in range(5):
            await asyncio.sleep(0.001)
            assert native.current_request() == mine
        await send({**BODY, "wait": 0.001})
        assert not open_now()
        if scope["path"].endswith("0"): raise LookupError
    async def main():
        tasks = [asyncio.create_task(served(application, f"/t{i}x{i % 10}")) for i in range(200)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, LookupError) for one in done) == 20 and len(seen) == 200
        assert not open_now()
    asyncio.run(main())
    assert len(ended) == 200 and sum(error for _, error in ended) == 0
    """)


def test_nothing_is_left_behind(bench: Bench) -> None:
    run(bench, """
    async def application(scope, receive, send):
        await send(START)
        await send(BODY)
        return scope
    async def broken(scope, receive, send):
        await send({**START, "status": 500})
        raise LookupError
    async def main(times):
        for i in range(times):
            await call(application)
            try: await call(broken)
            except LookupError: pass
        reported.clear()
        ended.clear()
    asyncio.run(main(300))
    gc.collect()
    before = (len(gc.get_objects()), [sys.getrefcount(one) for one in (send, receive, START, BODY, None)])
    asyncio.run(main(3000))
    gc.collect()
    after = (len(gc.get_objects()), [sys.getrefcount(one) for one in (send, receive, START, BODY, None)])
    assert after[0] - before[0] < 100, (before, after)
    assert all(abs(a - b) < 300 for a, b in zip(after[1], before[1])), (before, after)
    """)


@pytest.mark.parametrize("given", ["()", "(0, 1)", "('x', len, 1, 2, 3)", "(-1, len, 1, 2, 3)"])
def test_wrong_calls_are_reported(bench: Bench, given: str) -> None:
    run(bench, f"""
    try: native.asgi_serve(*{given})
    except (TypeError, OverflowError) as error: assert str(error)
    else: raise AssertionError("taken")
    """)
