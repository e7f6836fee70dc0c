"""The asyncio task that runs on a thread: its name must be told, and no other, however the task was
made and wherever its loop runs."""

import asyncio
import ctypes
import functools
import sys
import threading

import _asyncio

import probe

WORDS = ctypes.c_size_t(probe.asyncio_words()[1]), ctypes.c_size_t(id(_asyncio.Task))
probe.held.probe_time_running.restype = probe.lib.probe_time_running.restype = ctypes.c_uint64


def running(tid=None, library=probe.held, words=WORDS):
    """Name (None: none was given) and coroutine function; None: no task."""
    tid = ctypes.c_uint32(tid or threading.get_native_id())
    said = probe.text(library.probe_running, tid, *words)
    if said == "none":
        return None
    name, code = said.split("\t")
    return name or None, code.rsplit(".", 1)[-1]


async def asks(depth=0):
    if depth:
        return await asks(depth - 1)
    return running()


async def asks_later():
    before = running()
    await asyncio.sleep(0.001)
    assert running() == before
    return before


def named(coroutine, name, **more):
    return asyncio.get_running_loop().create_task(coroutine, name=name, **more)


async def names():
    for name in ("refresh prices", "x" * 64, "цены обновить", "prix \u00e0 jour", "Task-", "\U0001f3a5 " * 9):
        for _ in range(2):
            assert await named(asks(), name) == (name, "asks"), name
    assert await named(asks(20), "deep") == ("deep", "asks")
    assert await named(asks_later(), "later") == ("later", "asks_later")
    long = "job " * 40
    assert (await named(asks(), long))[0] == long[:64]
    assert (await named(asks(), "щ" * 70))[0] == "щ" * 32
    assert await named(asks(), 17) == ("17", "asks"), "whatever it was made of"


async def made_up():
    """asyncio's own names tell nothing: also once somebody has asked for one."""
    assert await asyncio.ensure_future(asks()) == (None, "asks")

    async def asks_its_name():
        assert asyncio.current_task().get_name().startswith("Task-")
        return running()

    assert await asyncio.ensure_future(asks_its_name()) == (None, "asks_its_name")

    async def takes_one():
        asyncio.current_task().set_name("a name of its own")
        return running()

    assert await asyncio.ensure_future(takes_one()) == ("a name of its own", "takes_one")


async def callbacks():
    """A callback runs in no task, nor does what it calls; a generator in a task is the task's."""
    loop = asyncio.get_running_loop()
    reported = loop.create_future()

    def numbers():
        yield running()

    loop.call_soon(lambda: reported.set_result((running(), next(numbers()))))
    assert await reported == (None, None)

    async def through_a_generator():
        return next(numbers())

    async def steps():
        yield running()

    async def through_its_like():
        async for found in steps():
            return found

    for part in through_a_generator, through_its_like:
        assert await named(part(), "through") == ("through", part.__name__), part


@functools.wraps(asks)
async def wrapped():
    return await asks()


class Thing:
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return running()


async def shapes():
    assert await named(wrapped(), "wrapped") == ("wrapped", "wrapped")

    async def by_hand():
        return await Thing()

    assert await named(by_hand(), "by hand") == ("by hand", "by_hand")
    assert await asyncio.gather(named(asks(), "one"), named(asks(), "two")) == [
        ("one", "asks"), ("two", "asks")]
    assert await asyncio.wait_for(named(asks(), "limited"), 5) == ("limited", "asks")

    class Own(asyncio.Task):
        pass

    assert await Own(asks(), name="its class is the program's") == ("its class is the program's", "asks")
    if sys.version_info < (3, 12):
        import types

        @types.coroutine
        def old():
            yield
            return running()

        assert await named(old(), "old style") == ("old style", "old")


async def eager():
    """One that begins inside of another's step is the running one meanwhile."""
    loop = asyncio.get_running_loop()
    if not hasattr(asyncio, "eager_task_factory"):
        return
    loop.set_task_factory(asyncio.eager_task_factory)

    begin = functools.partial(asyncio.Task, loop=loop, eager_start=True)

    async def outer():
        inner = begin(asks_later(), name="inner")
        assert running() == ("outer", "outer"), running()
        deeper = begin(asks(), name="done at once")
        assert deeper.done() and await deeper == ("done at once", "asks")
        return await inner

    assert await begin(outer(), name="outer") == ("inner", "asks_later")
    # Up to 3.13 the loop names it when it has made it: behind its first step.
    loop.set_task_factory(asyncio.eager_task_factory)
    task = named(asks(), "named too late")
    name = "named too late" if sys.version_info >= (3, 14) else None
    assert task.done() and task.result() == (name, "asks"), task
    loop.set_task_factory(None)


async def ended():
    """A thread's stack after the task is done, and with the dict empty, tells none."""
    task = named(asks(), "short")
    await task
    assert running() == ("main", "main"), running()


async def in_a_loop_of_its_own():
    """A loop that runs inside of a callback of another one: the inner one's task."""
    loop = asyncio.get_running_loop()
    reported = loop.create_future()

    def nested():
        inner = asyncio.new_event_loop()
        previous = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            reported.set_result(inner.run_until_complete(inner.create_task(asks(), name="nested")))
        finally:
            asyncio._set_running_loop(previous)
            inner.close()

    loop.call_soon(nested)
    assert await reported == ("nested", "asks")


async def something_else():
    """What is no dict of tasks tells none; from 3.14 on there is none."""
    for kind in (8, 1 << 40, id(dict)):
        assert running(words=(WORDS[0], ctypes.c_size_t(kind))) == ("main", "main"), "known by its name"
    if sys.version_info >= (3, 14):
        return
    task = asyncio.current_task()
    keyed = [{}, {1: task, 2: 3}, {n: None for n in range(500)}, {"a": "b"}, {task: task.get_coro()}]
    for value in (*keyed, object(), [1], "text", task, asyncio.Task, 8, 1 << 40, (1 << 64) - 8):
        at = id(value) if not isinstance(value, int) else value
        found = running(words=(ctypes.c_size_t(at), WORDS[1]))
        assert found is None or value is keyed[1], (value, found)
    own = running(words=(ctypes.c_size_t(id(keyed[1])), WORDS[1]))
    assert own == ("main", "main"), "a dict that has it beside something else"


PARTS = (names, made_up, callbacks, shapes, eager, ended, in_a_loop_of_its_own, something_else)


async def main():
    asyncio.current_task().set_name("main")
    for part in PARTS:
        await part()


def blocks(name, count, go, new_loop=asyncio.new_event_loop):
    """A thread whose loop is kept by a task that blocks; `count` others wait beside it."""
    tid = []

    async def keeps():
        tid.append(threading.get_native_id())
        go.wait()

    async def around():
        others = [named(asyncio.sleep(60), "other %d" % n) for n in range(count)]
        await asyncio.sleep(0)
        await named(keeps(), name)
        for other in others:
            other.cancel()

    def run():
        loop = new_loop()
        loop.run_until_complete(around())
        loop.close()

    thread = probe.start(run)
    probe.until(lambda: tid and probe.waiting(tid[0]), "the loop is kept")
    return tid[0], thread


def threads(new_loop=asyncio.new_event_loop):
    """Loops of several threads, all kept at once, and a thread without any loop."""
    go = threading.Event()
    kept = {"kept %d" % n: blocks("kept %d" % n, n, go, new_loop) for n in range(12)}

    def generates():
        yield threading.get_native_id()
        go.wait()
        yield 0

    tids = []

    def plain():
        for tid in generates():
            tids.append(tid)

    plain_thread = probe.start(plain)
    probe.until(lambda: tids and probe.waiting(tids[0]), "the thread without a loop waits")
    for _ in range(3):
        for name, (tid, _) in kept.items():
            assert running(tid, probe.lib) == (name, "keeps"), (name, running(tid))
        assert running(tids[0], probe.lib) is None
        assert running() is None, "this one has no generator"
    took = [probe.lib.probe_time_running(ctypes.c_uint32(tid), *WORDS, ctypes.c_size_t(2000))
            for tid in (kept["kept 3"][0], tids[0])]
    go.set()
    for _, thread in kept.values():
        thread.join()
    plain_thread.join()
    return took


def alone():
    """What a look costs with one loop, as a service has it."""
    go = threading.Event()
    tid, thread = blocks("alone", 5, go)
    took = [probe.lib.probe_time_running(ctypes.c_uint32(one), *WORDS, ctypes.c_size_t(2000))
            for one in (tid, threading.get_native_id())]
    go.set()
    thread.join()
    return took


probe.attach()
assert running() is None, "nothing runs"
asyncio.run(main())
assert running() is None, "nothing runs any more"
said = "asyncio"
took = threads() + alone()
try:
    import uvloop
except ImportError:
    pass
else:
    said = "asyncio, uvloop"
    loop = uvloop.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    threads(uvloop.new_event_loop)
said += "; ns for (stack, task): 12 loops %s, no loop %s, one loop %s, no generator %s" % tuple(
    (both & 0xffffffff, both >> 32) for both in took)
print(said)
