"""Locks and their kin of asyncio: the kind of a wait, and the task that holds what it waits for."""

import asyncio
import contextlib

import probe
from awaited.suspended import drop, lib, one, parked, word


async def locks():
    lock, semaphore = asyncio.Lock(), asyncio.BoundedSemaphore(1)
    condition, event, queue = asyncio.Condition(), asyncio.Event(), asyncio.PriorityQueue()

    async def hold(what, leaf):
        async with what:
            await asyncio.sleep(leaf)

    async def wants(what):
        async with what:
            pass

    async def by_acquire(what):
        await what.acquire()
        try:
            await asyncio.sleep(60)
        finally:
            what.release()

    @contextlib.asynccontextmanager
    async def section(what):
        await what.acquire()
        try:
            yield
        finally:
            what.release()

    @contextlib.asynccontextmanager
    async def nested(what):
        async with what:
            yield

    async def stacked(*several):
        async with contextlib.AsyncExitStack() as stack:
            for what in several:
                await stack.enter_async_context(what)
            await asyncio.sleep(60)

    async def notified(what):
        async with what:
            await what.wait()

    for what, kind in ((lock, "lock"), (semaphore, "semaphore")):
        holder = await parked(hold(what, 60))
        waiter, second = await parked(wants(what)), await parked(wants(what))
        got = one(waiter)
        assert got.kind == kind and got.lock == id(what) and got.names[-1] == "wants", got
        assert got.names[0] == "acquire" and got.frames[0][1] == "locks.py", got
        assert lib.probe_task_holding(word(what), word(probe.asyncio_words()[0])) == id(holder)
        await drop(holder)
        await drop(waiter, second)
        assert lib.probe_task_holding(word(what), word(probe.asyncio_words()[0])) == 0
        holder, waiter = await parked(by_acquire(what)), await parked(wants(what))
        assert lib.probe_task_holding(word(what), word(probe.asyncio_words()[0])) == 0, "a guess"
        await drop(holder, waiter)
    for made in section, nested:
        holder = await parked(hold(made(lock), 60))
        waiters = [await parked(wants(made(lock))) for _ in range(2)]
        assert lib.probe_task_holding(word(lock), word(probe.asyncio_words()[0])) == id(holder), made
        await drop(holder)
        await drop(*waiters)
        assert lib.probe_task_holding(word(lock), word(probe.asyncio_words()[0])) == 0, made
        # Both wait for the task that has it by hand; they are entering only.
        others = await parked(by_acquire(lock)), await parked(wants(made(lock)))
        assert lib.probe_task_holding(word(lock), word(probe.asyncio_words()[0])) == 0, made
        await drop(*others)
    for made in (lambda what: what), section, nested:
        # The one that has it waits for another one, inside of a method of its stack.
        blocker = await parked(by_acquire(semaphore))
        holder, waiter = await parked(stacked(made(lock), semaphore)), await parked(stacked(made(lock)))
        assert lib.probe_task_holding(word(lock), word(probe.asyncio_words()[0])) == id(holder), made
        await drop(waiter, holder, blocker)
        assert lib.probe_task_holding(word(lock), word(probe.asyncio_words()[0])) == 0, made
    waits = [(notified(condition), "condition"), (event.wait(), "event"), (queue.get(), "queue")]
    for coroutine, kind in waits:
        task = await parked(coroutine)
        assert one(task).kind == kind, one(task)
        await drop(task)
