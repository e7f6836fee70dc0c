"""Tasks that wait for other tasks, with and without a limit: the waits of those are shown."""

import asyncio
import contextlib
import sys

from awaited.suspended import deep, drop, one, parked, read

NEW = sys.version_info >= (3, 11)


async def limits():
    task = await parked(asyncio.sleep(60.5))
    assert (one(task).kind, one(task).limit_ms) == ("sleep", 60500), one(task)
    await drop(task)
    event = asyncio.Event()

    async def limited():
        await asyncio.wait_for(event.wait(), 77)

    task = await parked(limited())
    got = one(task)
    assert got.kind == "event" and got.names[:1] == ["wait"] and got.names[-1] == "limited", got
    assert got.limit_ms == 77000, got
    await drop(task)


async def several():
    """Tasks behind futures of asyncio's own making are followed."""

    async def child(seconds):
        await asyncio.sleep(seconds)

    async def gathers():
        await asyncio.gather(child(0.001), child(60), deep(3, child(61)))

    async def gathers_one():
        await asyncio.gather(child(60), return_exceptions=True)

    async def waits():
        tasks = {asyncio.ensure_future(child(60)) for _ in range(3)}
        try:
            await asyncio.wait(tasks)
        finally:
            await drop(*tasks)

    async def shields(task):
        await asyncio.shield(task)

    async def a_task(task):
        await task

    async def wait_for():
        await asyncio.wait_for(child(60), 70)

    async def nested():
        await asyncio.gather(gathers(), wait_for())

    inner = asyncio.ensure_future(child(60))
    shapes = [(gathers, 2), (gathers_one, 1), (waits, 3), (lambda: shields(inner), 1),
              (lambda: a_task(inner), 1), (wait_for, 1), (nested, 3)]
    if NEW:
        async def group():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(child(60))
                tasks.create_task(child(61))

        async def limited():
            async with asyncio.timeout(60):
                await child(60)

        shapes += [(group, 2), (limited, 1)]
    for shape, count in shapes:
        task = await parked(shape())
        found = read(task)
        name = getattr(shape, "__name__", "")
        assert isinstance(found, list) and len(found) == count, (name, found)
        for chain in found:
            assert chain.kind == "sleep" and chain.names[:2] == ["sleep", "child"], (name, chain)
            assert chain.names[-1] == name or name == "<lambda>", (name, chain)
        await drop(task)
    await drop(inner)


class TaskGroup:
    """As anyio's: nothing but its tasks leads from the task that waits in its block to them."""

    def __init__(self):
        self._tasks = set()

    def start(self, coroutine):
        self._tasks.add(asyncio.ensure_future(coroutine))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await drop(*self._tasks)


async def groups():
    """A task that waits for a notice in the block of a group that its own file opened waits for its tasks."""

    async def child():
        await asyncio.sleep(60)

    async def middleware(event):
        async with TaskGroup() as tasks:
            tasks.start(child())
            await event.wait()

    async def sleeps():
        async with TaskGroup() as tasks:
            tasks.start(child())
            await asyncio.sleep(61)

    async def serves(body):
        async with TaskGroup() as tasks:
            tasks.start(child())
            await body

    event = asyncio.Event()
    task = await parked(middleware(event))
    got = one(task)
    assert got.kind == "sleep" and got.names == ["sleep", "child", "wait", "middleware"], got
    await drop(task)
    task = await parked(sleeps())
    assert one(task).names == ["sleep", "sleeps"], "it waits for its own time"
    await drop(task)
    # One that only watches for its client to go away, in the code of its server.
    elsewhere = {}
    source = "async def receive(event):\n    await event.wait()\n"
    exec(compile(source, "server.py", "exec"), elsewhere)

    async def listen_for_disconnect():
        await elsewhere["receive"](event)

    @contextlib.asynccontextmanager
    async def opened():
        async with TaskGroup() as tasks:
            yield tasks

    async def serves_through(body):
        async with opened() as tasks:
            tasks.start(child())
            await body

    for opens in (serves, serves_through):
        task = await parked(opens(listen_for_disconnect()))
        got = one(task)
        assert got.kind == "sleep" and got.names == ["sleep", "child", opens.__name__], got
        await drop(task)
    elsewhere = {}
    exec(compile("async def body(event):\n    await event.wait()\n", "elsewhere.py", "exec"), elsewhere)
    task = await parked(serves(elsewhere["body"](event)))
    got = one(task)
    assert got.kind == "event" and got.names == ["wait", "body", "serves"], got
    await drop(task)
