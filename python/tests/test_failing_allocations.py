"""Each allocation of CPython's that a call of ours makes fails once, and each call of ours meets the
end of the stack at every depth: the program gets no answer that it could not get bare.

How it works: `_testcapi.set_nomemory(n, n + 1)` makes the n-th allocation fail, of all that the
interpreter makes on any thread. Each operation is run with n = 0, 1, ... until none is left that
the failure can meet, first bare and then recorded; the recorded answers must be among the bare
ones. Operations are the calls of the API and functions with each kind of hook (`operations`). The
first call of each in a process is tried in processes of their own.

Missing on purpose: allocations of Rust, which tests/faults covers by a limit of address space.
"""

from __future__ import annotations

import sys

import pytest
from conftest import Bench
from operations import CALLED, CALLS, NAMES, OPERATIONS


# A debug build of CPython ends where there is no memory for a traceback, bare as well.
ENDS = ["refused_call"] if hasattr(sys, "gettotalrefcount") and sys.version_info < (3, 12) else []
CALLS += f"""
    operations = [each for each in operations if each.__name__ not in {ENDS}]
    REQUESTS = len(operations)
"""
# The operations of one program.
GROUPS = {"units of work": OPERATIONS, "calls to other services": OPERATIONS + CALLS}
each_group = pytest.mark.parametrize("group", GROUPS)


def survived(bench: Bench, group: str, code: str, *words: str) -> None:
    """The program ends normally and has printed no line of ours, or of a damaged heap."""
    program = bench.write("program.py", GROUPS[group] + code)
    result = bench.run([sys.executable, "-W", "error", str(program), *words], PYTHONMALLOC="debug")
    if "no _testcapi" in result.stdout:
        pytest.skip("this CPython comes without _testcapi")
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    print(result.stdout)


@each_group
def test_each_allocation_may_fail(bench: Bench, group: str) -> None:
    survived(bench, group, """
    try: import _testcapi
    except ImportError:
        print("no _testcapi")
        sys.exit()
    def answers(operation):
        for warm_up in range(3): operation()
        found = []
        for at in itertools.count():
            gc.collect()  # and the interpreter's lists of freed objects are empty
            _testcapi.set_nomemory(at, at + 1)
            try:
                # CPython up to 3.10 allocates frames: that of our own call is no answer.
                try: answer = answered(operation)
                except MemoryError: continue
                # Was the failure behind the operation? Each object is an allocation.
                was_met = True
                try:
                    for _ in itertools.repeat(None, at + 1): object()
                except MemoryError: was_met = False
            finally: _testcapi.remove_mem_hooks()
            assert _native.current_request() == 0, (operation.__name__, at, answer)
            found.append(shown(answer))
            if not was_met: return found
    compare(answers)
    """)


@each_group
def test_the_stack_may_end_at_any_depth(bench: Bench, group: str) -> None:
    survived(bench, group, """
    sys.setrecursionlimit(200)
    def below(depth, operation): return answered(operation) if depth == 0 else below(depth - 1, operation)
    def answers(operation):
        for warm_up in range(3): operation()
        found = []
        for depth in range(120, 200):
            try: answer = below(depth, operation)
            except RecursionError as error: answer = error
            assert _native.current_request() == 0, (operation.__name__, depth, answer)
            found.append(shown(type(answer) if isinstance(answer, RecursionError) else answer))
        return found
    compare(answers)
    """)


# Reports the answer of the first call of an operation in a process, one allocation of which fails,
# and whether that was met: a child for each.
FIRST = """
    import os, signal
    try: import _testcapi
    except ImportError:
        print("no _testcapi")
        sys.exit()
    operation = {each.__name__: each for each in operations}[sys.argv[1]]
    def in_a_child(at, recorded):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            if recorded:
                assert dashcam.start(slow="9s", memory="1MiB", control=False, stacks=False, switches=False)
                hook()
            gc.collect()
            _testcapi.set_nomemory(at, at + 1)
            try:
                try: answer = answered(operation)
                except MemoryError:
                    os.write(writing, b"True, None")
                    os._exit(0)
                was_met = True
                try:
                    for _ in itertools.repeat(None, at + 1): object()
                except MemoryError: was_met = False
            finally: _testcapi.remove_mem_hooks()
            assert _native.current_request() == 0
            os.write(writing, repr((was_met, shown(answer))).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe: said = pipe.read()
        assert os.waitpid(child, 0)[1] == 0, (operation.__name__, at, recorded)
        return eval(said)
    def answers_of_first_calls(recorded):
        found = []
        for at in itertools.count():
            was_met, answer = in_a_child(at, recorded)
            if answer is not None: found.append(answer)
            if not was_met: return found
    bare, recorded = answers_of_first_calls(False), answers_of_first_calls(True)
    new = {answer: at for at, answer in enumerate(recorded) if answer not in bare}
    assert not new, (operation.__name__, new, set(bare))
    print(len(recorded), "faults")
"""


@pytest.mark.parametrize("operation", [*NAMES, *(name for name in CALLED if name not in ENDS)])
def test_each_allocation_of_a_first_call_may_fail(bench: Bench, operation: str) -> None:
    survived(bench, "units of work" if operation in NAMES else "calls to other services", FIRST, operation)
