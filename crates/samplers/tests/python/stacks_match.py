"""Parked threads with stacks of every shape: the reader must find what CPython itself reports."""

import asyncio
import os
import sys
import threading

import probe

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

gate = threading.Lock()
gate.acquire()


def park():
    gate.acquire()
    gate.release()
    return 0


def nested():
    def inner():
        class Local:
            def method(self):
                park()

        Local().method()

    inner()


def generator(depth):
    if depth:
        yield from generator(depth - 1)
    else:
        yield park()


def generators():
    for _ in generator(5):
        pass


def comprehension():
    return [park() for _ in range(1)] + list(park() for _ in range(1))


async def leaf():
    park()


async def branch():
    await asyncio.sleep(0)
    await leaf()


async def gather():
    await asyncio.gather(branch(), asyncio.sleep(0))


def coroutines():
    asyncio.run(gather())


def lambdas():
    (lambda f: (lambda g: g())(f))(park)


def executed():
    source = "def made(park):\n\n    x = (1 +\n       park())\n\nmade(park)\n"
    exec(compile(source, "<made up>", "exec"), {"park": park})


def deep(depth=900):
    if depth == 1:
        return park()
    return deep(
        depth - 1,
    )


def wide(depth=60):
    """Large frames fill a chunk each few frames, and one is larger than a chunk."""
    names = ["v%d" % i for i in range(3000)]
    body = " = ".join(names) + " = 1\n    f()"
    space = {}
    exec("def huge(f):\n    %s\n" % body, space)
    space["huge"](lambda: deep(30)) if depth == 1 else wide(depth - 1)


def sorting():
    sorted([3, 2], key=lambda value: park())


class Initialised:
    def __init__(self):
        park()


def initialising():
    Initialised()


def multi_line(
    a=1,
):
    text = """

    """
    return (
        a,
        max(
            1,
            park(),
        ),
        text,
    )


def handling():
    try:
        raise ValueError
    except ValueError:
        try:
            with threading.Lock():
                park()
        finally:
            a = 1
    return a


def größe_щука_变量():
    def 变量(λ=1):
        park()

    变量()


def emoji():
    exec(compile("park()", "<🎥 dash>", "exec"), {"park": park})


def long_name():
    name = "n" * 1000
    exec("def %s():\n  park()\n%s()" % (name, name), {"park": park})


def far_lines():
    exec("\n" * 70000 + "def far():\n" + "\n" * 300 + "  park()\nfar()", {"park": park})


class Meta(type):
    def __call__(cls):
        return park()


class Called(metaclass=Meta):
    pass


def called():
    Called()


SHAPES = [nested, generators, comprehension, coroutines, lambdas, executed, deep, wide, sorting,
          initialising, multi_line, handling, größe_щука_变量, emoji, long_name, far_lines, called]


def compare(shape, thread):
    expected = probe.chain(sys._current_frames()[thread.ident])
    found, truncated = probe.stack(thread.native_id)
    assert not truncated
    assert found == expected, "%s:\n%s\n%s" % (
        shape.__name__,
        [pair for pair in zip(found, expected) if pair[0] != pair[1]][:5],
        (len(found), len(expected)),
    )
    cut, truncated = probe.stack(thread.native_id, 3)
    assert cut == expected[:3] and truncated, cut
    whole, truncated = probe.stack(thread.native_id, len(expected))
    assert whole == expected and not truncated
    return len(expected)


PARKS = """
def parked():
    os.write(%d, b"x") and os.read(%d, 1)
import os
parked()
"""
CALLS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.run_string(%d, %r)
"""
PARKED = [("parked", probe.SCRIPT, 3), ("<module>", probe.SCRIPT, 5)]
CALLED = ("<module>", probe.SCRIPT, 6)


def runs(number, code, callers):
    # On the line of the call. (sys._current_frames() of threads in other interpreters breaks CPython itself.)
    interpreters.run_string(number, callers.extend(probe.chain(sys._getframe())) or code)


def makes_and_runs(code, callers):
    number = interpreters.create()
    runs(number, code, callers)
    interpreters.destroy(number)


def through_interpreters():
    """Threads whose code was called from another interpreter's: the frames of both, the called
    one's innermost. How many were compared."""
    (ready, reports), (waits, ends) = os.pipe(), os.pipe()
    parks = PARKS % (reports, waits)
    made = [interpreters.create() for _ in range(5)]
    a, b, c, d, e = map(int, made)
    cases = [("made by itself", PARKED, makes_and_runs, parks)]
    # On 3.9 nothing tells who runs an interpreter that another thread made.
    reported = sys.version_info >= (3, 10)
    twice = PARKED + [CALLED]
    cases.append(("made by another", PARKED if reported else [], runs, a, parks))
    cases.append(("a newer from an older", twice if reported else [], runs, b, CALLS % (c, parks)))
    cases.append(("an older from a newer", twice if reported else [], runs, e, CALLS % (d, parks)))
    threads = []
    for what, inner, function, *arguments in cases:
        callers = []
        threads.append((what, inner, callers, probe.start(function, *arguments, callers)))
        os.read(ready, 1)
    for what, inner, callers, thread in threads:
        expected = inner + callers
        for _ in range(3):
            found, truncated = probe.stack(thread.native_id)
            assert found == expected and not truncated, (what, found, expected)
        cut, truncated = probe.stack(thread.native_id, 3)
        assert cut == expected[:3] and truncated, (what, cut)
    # The thread that made them runs none of it.
    names = [name for name, _, _ in probe.stack(threading.get_native_id())[0]]
    assert "parked" not in names and names[-2:] == ["main", "<module>"], names
    os.write(ends, b"x" * len(threads))
    for what, *_, thread in threads:
        thread.join(20)
        assert not thread.is_alive(), what
    for number in made:
        interpreters.destroy(number)
    return len(threads)


def main():
    sys.setrecursionlimit(5000)
    threading.stack_size(64 << 20)
    probe.attach()
    total = 0
    threads = [(shape, probe.start(shape)) for shape in SHAPES]
    for shape, thread in threads:
        probe.until(lambda: probe.waiting(thread.native_id), shape.__name__)
        total += compare(shape, thread)
    own = threading.get_native_id()
    found, mine = probe.stack(own), probe.chain(sys._getframe())
    names = [name for name, _, _ in found[0]]
    assert names[-2:] == ["main", "<module>"] and found[0][-2:] == mine, (found, mine)
    listed = {line.split("\t")[0] for line in probe.text(probe.lib.probe_threads).splitlines()}
    assert listed == {str(t.native_id) for t in threading.enumerate()}
    idents = {line.split("\t")[1] for line in probe.text(probe.lib.probe_threads).splitlines()}
    assert idents == {str(t.ident) for t in threading.enumerate()}
    gate.release()
    for shape, thread in threads:
        thread.join(20)
        assert not thread.is_alive(), shape.__name__
    print("%d stacks, %d frames equal" % (len(SHAPES), total))
    print("%d through interpreters equal" % through_interpreters())


main()
