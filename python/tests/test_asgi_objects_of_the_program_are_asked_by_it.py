"""What a scope, a message or a judgement of the program's is, its own code may say: the server asks
it, or it is asked once, and what interrupts it passes."""

from __future__ import annotations

import pytest
from asgi_program import run
from conftest import Bench


def test_only_the_server_asks_a_message_whether_more_follows(bench: Bench) -> None:
    run(bench, """
    asked = []
    class More:
        def __init__(self, answer): self.answer = answer
        def __bool__(self):
            asked.append(sys._getframe(1).f_code.co_name)
            if isinstance(self.answer, bool): return self.answer
            raise self.answer
    class Number:
        def __index__(self): asked.append("index"); return 503
    async def send(message):
        if message.get("more_body"): raise AssertionError
    def sends(answer):
        async def application(scope, receive, send):
            await send({**START, "status": Number()})
            try: await send({**BODY, "more_body": More(answer)})
            except (ArithmeticError, KeyboardInterrupt) as error: assert error is answer
            assert open_now()
        return application
    for answer in (False, ArithmeticError(), KeyboardInterrupt()):
        async def main(): await call(sends(answer), send=send)
        asyncio.run(main())
        assert asked == ["send"], asked
        asked.clear()
    # Of what CPython itself knows the request ends with the last part, as ever.
    for more in (False, None, 0, 0.0, "", b"", [], (), {}):
        async def application(scope, receive, send):
            await send({**BODY, "more_body": more})
            assert not open_now()
        asyncio.run(served(application))
    assert set(ended) == {("a", False)} and len(ended) == 12, ended
    """)


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "LookupError"])
def test_a_mapping_that_is_interrupted_while_it_is_read(bench: Bench, error: str) -> None:
    run(bench, f"""
    Raised = {error}
    class Read:
        "A mapping of the program's: the interpreter runs its code, or that of a signal, in it."
        def __init__(self, known, at): self.known, self.at = known, at
        def get(self, key): return None
        def __contains__(self, key): return False
        def __getitem__(self, key):
            if key == self.at: raise Raised(key)
            return self.known[key]
    class Key(str):
        __hash__ = str.__hash__
        def __eq__(self, other): raise Raised("headers")
    class Pair:
        def __getitem__(self, at): raise Raised("headers")
    interrupts = not issubclass(Raised, Exception)
    def outcome(serve):
        try: asyncio.run(serve())
        except Raised as error: return error.args[0]
    messages = [Read(START, "type"), Read(START, "status"), Read(BODY, "type"), Read(BODY, "more_body")]
    for message in messages:
        async def application(scope, receive, send): await send(message)
        assert outcome(lambda: served(application)) == (message.at if interrupts else None), message.at
    # The same of a scope, with a framework's application.
    SCOPE = {{"type": "http", "method": "GET", "path": "/a", "headers": [], "client": None}}
    async def application(scope, receive, send): await send(BODY)
    scopes = [Read(SCOPE, name) for name in SCOPE]
    without = {{name: value for name, value in SCOPE.items() if name != "headers"}}
    scopes += [{{**SCOPE, "headers": [Pair()]}}, {{**without, Key("headers"): []}}]
    for scope in scopes:
        name = getattr(scope, "at", "headers")
        called = outcome(lambda: native.asgi_call(application, scope, receive, send))
        assert called == (name if interrupts else None), name
        assert not open_now()
    assert dashcam.status()["open_requests"] == 0
    """)


def test_the_truth_of_a_judgement_is_the_programs(bench: Bench) -> None:
    run(bench, """
    class Odd:
        "What comparing a status of the program's own type may return."
        def __init__(self, error): self.error = error
        def __bool__(self): raise self.error
    def judged(error, *more):
        async def handler():
            if more: raise OSError("the handler's")
            return "done"
        async def main():
            request = native.asgi_arrives("GET", "/a")
            odd = lambda _result: Odd(error)
            return await native.handling(request, handler(), odd, odd if more else None)
        try: return asyncio.run(main())
        except BaseException as raised: return raised
    # One that interrupts passes, a fault is a notice; the request has ended.
    interrupt = KeyboardInterrupt()
    assert judged(interrupt) is interrupt and judged(interrupt, "raises") is interrupt
    assert judged(ArithmeticError()) == "done" and type(judged(ArithmeticError(), "raises")) is OSError
    notices = [notice for notice in dashcam.status()["integrations"] if "not as expected" in notice]
    assert len(notices) == 2, dashcam.status()["integrations"]
    for error in (interrupt, ArithmeticError()):
        try: native.request_end(native.request_begin("/b"), Odd(error))
        except BaseException as raised: assert raised is error
        else: raise AssertionError("lost")
    assert ended == [("a", True)] * 4 + [("b", True)] * 2 and not open_now(), ended
    """)
