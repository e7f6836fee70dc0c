"""Within one task: each way in which one coroutine awaits another, and each state of the task."""

import asyncio
import contextlib

from awaited.suspended import by_cpython, deep, drop, one, parked, read, settle


async def numbers(leaf):
    yield 1
    await leaf
    yield 2


async def over(leaf):
    async for _ in numbers(leaf):
        pass


class Slow:
    def __init__(self, leaf):
        self.leaf = leaf

    async def __aenter__(self):
        await self.leaf

    async def __aexit__(self, *_):
        pass

    def __await__(self):
        return (yield from self.leaf.__await__())


async def entering(leaf):
    async with Slow(leaf):
        pass


async def by_hand(leaf):
    await Slow(leaf)


async def stacked(leaf):
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(Slow(leaf))


async def chains():
    """Everything within one task equals CPython's own account."""
    loop = asyncio.get_running_loop()
    for shape in (lambda f: deep(0, f), lambda f: deep(60, f), over, entering, by_hand, stacked):
        leaf = loop.create_future()
        task = await parked(shape(leaf))
        got = one(task)
        wanted = by_cpython(task)
        if shape is over:
            # The step of an asynchronous generator does not say whose it is.
            assert got.names == ["numbers", "over"], got
            assert got.frames[1:] == wanted, (got, wanted)
        elif shape is not by_hand:
            assert got.frames == wanted, (got, wanted)
        else:
            assert got.names[-1] == "by_hand", got
        assert got.kind == "future" and got.task == id(task), got
        await drop(task)
        assert read(task) == "torn read: task done"


async def states():
    async def runs():
        chain = one(asyncio.current_task())
        assert chain.kind == "running" and chain.names[-1] == "runs", chain

    await asyncio.ensure_future(runs())
    leaf = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(deep(2, leaf))
    assert one(task).kind == "ready"
    await settle()
    leaf.set_result(1)
    await asyncio.sleep(0)  # the wake-up is in the loop's queue, or done
    await task
    loop = asyncio.get_running_loop()
    for value in (object(), [1], "text", leaf, asyncio.Task, loop, 8, 0, 1 << 40):
        assert read(value) == "torn read: task gone", value
