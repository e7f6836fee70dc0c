"""A signal handler of the program that raises, at any point at which CPython may run it, ends the
call as it would without dashcam: the same exception, the same frames in its traceback, no request
left open.

How it works: CPython runs a handler between two instructions, at some of them: behind calls, and
at jumps back. A trace function counts the instructions of everything that an operation runs, our
own Python code included. At the n-th it leaves a function with the interpreter, which is called at
the next such point and sends the signal (`_testcapi._pending_threadfunc`). Each operation is run
with n = 0, 1, ... until it ends before, bare and then recorded. The recorded answers must be among
the bare ones.
"""

from __future__ import annotations

import sys

import pytest
from conftest import Bench
from operations import CALLS, OPERATIONS, WORKERS

SWEEP = """
    import contextvars, signal
    try: from _testcapi import _pending_threadfunc as leave
    except ImportError:
        print("no _testcapi")
        sys.exit()
    class Timeout(Exception): pass
    RAISED = {"timeout": Timeout, "interrupt": KeyboardInterrupt, "exit": SystemExit}[sys.argv[1]]
    def handler(number, frame): raise RAISED("from the handler")
    class Handler:
        def __call__(self, number, frame): handler(number, frame)
        def method(self, number, frame): handler(number, frame)
    import functools
    HANDLERS = {"function": handler, "method": Handler().method, "object": Handler(),
                "partial": functools.partial(handler)}
    signal.signal(signal.SIGALRM, HANDLERS[sys.argv[2]])

    def frames(error):
        entry, found = error.__traceback__, []
        while entry:
            found.append((entry.tb_frame.f_code.co_name, entry.tb_lineno))
            entry = entry.tb_next
        # `send` stands for the interpreter, and an attribute's `str()` is called by the API.
        return [frame for frame in found if frame[0] not in ("send", "__str__", *HANDLING)]
    HANDLING = ("handler", "method", "__call__")
    def places(answer):
        # Where it was raised, and each caller of that place: bare, CPython 3.11 starts a function
        # of Python's without running handlers in its caller.
        if not isinstance(answer, tuple): return [answer]
        name, arguments, frames, context = answer
        return [(name, arguments, frames[:depth], context) for depth in range(1, len(frames) + 1)]
    is_armed = False
    def send():
        "Called between two instructions; not yet between those of the trace function."
        global is_armed
        if is_armed:
            if sys._getframe(1).f_code is trace.__code__: leave(send)
            else:
                is_armed = False
                was_raised.append(True)
                signal.raise_signal(signal.SIGALRM)
    was_raised = []
    def trace(frame, event, arg):
        global left, is_armed
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        left -= 1
        if left == -1:
            is_armed = True
            leave(send)
        return trace
    def interrupted(operation, at):
        "The answer, and whether the signal was sent."
        global left, is_armed
        left = at
        try:
            sys.settrace(trace)
            answer = operation()
        except BaseException as error:
            names, context = frames(error), error.__context__
            answer = (type(error).__name__, error.args, names, repr(context))
            assert error.__traceback__.tb_frame.f_code.co_name == "interrupted"
        finally:
            is_armed = False
            sys.settrace(None)
        return answer, left < 0
    def leave_context():
        "From 3.14 on a handler may run between `__enter__` and its block: nobody's `__exit__` is called then."
        for own in contextvars.copy_context():
            if own.name == "dashcam_request": own.set(0)
    def answers(operation):
        # 3.13 traces the instructions of functions that were traced before.
        for warm_up in range(3): interrupted(operation, 1_000_000)
        found = []
        for at in itertools.count():
            was_raised.clear()
            answer, was_sent = interrupted(operation, at)
            # None is swallowed.
            assert bool(was_raised) == isinstance(answer, tuple), (operation.__name__, at, answer)
            if sys.version_info >= (3, 14) and isinstance(answer, tuple): leave_context()
            assert _native.current_request() == 0, (operation.__name__, at, answer)
            # A handler between the call of a coroutine function and the await leaves its coroutine.
            unraised[:] = [name for name in unraised if name != "RuntimeWarning"]
            found.extend(map(shown, places(answer)))
            if not was_sent: return found
    if sys.argv[1] == "timeout":
        class Fields:
            "Properties, which a hook reads: code of the program's."
            @property
            def rule(self): return "/<a>"
            @property
            def url_rule(self): return self
            method = "GET"
        class Request:
            @property
            def request(self): return Fields()
        variable.set(Request())
        class Body(list):
            @property
            def status_code(self): return 500
        BODY = Body(BODY)
    compare(answers)
    assert dashcam.status()["open_requests"] == 0, dashcam.status()
"""


@pytest.mark.parametrize(("raised", "handler"), [
    ("timeout", "function"), ("timeout", "method"), ("timeout", "object"), ("timeout", "partial"),
    ("interrupt", "function"), ("exit", "function"),
])
def test_at_every_instruction(bench: Bench, raised: str, handler: str) -> None:
    sweep(bench, OPERATIONS, raised, handler)


@pytest.mark.parametrize("raised", ["timeout", "interrupt"])
def test_at_every_instruction_of_a_unit_of_work(bench: Bench, raised: str) -> None:
    sweep(bench, OPERATIONS + WORKERS, raised, "function")


@pytest.mark.parametrize("raised", ["timeout", "interrupt"])
def test_at_every_instruction_of_a_call_to_another_service(bench: Bench, raised: str) -> None:
    sweep(bench, OPERATIONS + CALLS, raised, "function")


def sweep(bench: Bench, operations: str, raised: str, handler: str) -> None:
    program = bench.write("program.py", operations + SWEEP)
    done = bench.run([sys.executable, "-W", "error", str(program), raised, handler])
    if "no _testcapi" in done.stdout:
        pytest.skip("this CPython comes without _testcapi")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    print(done.stdout)


def test_while_an_exception_of_c_is_noticed(bench: Bench) -> None:
    """Up to 3.11 such an exception is made late: no other may be set by then."""
    result = bench.python("""
        from types import SimpleNamespace
        from dashcam import _native as native
        def interrupts(error, key): raise KeyboardInterrupt
        def misses(key): return {}[key]
        for place in (SimpleNamespace(misses=misses), SimpleNamespace(misses={}.__getitem__)):
            native.hook(place, "misses", failed=interrupts)
            try: place.misses("key")
            except KeyboardInterrupt as error: assert repr(error.__context__) == "KeyError('key')", error.__context__
            else: raise AssertionError("not interrupted")
    """)
    assert result.returncode == 0, result.stderr
