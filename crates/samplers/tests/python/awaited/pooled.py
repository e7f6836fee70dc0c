"""Pools: the task that is inside of the block of an item."""

import asyncio
import contextlib

import probe
from awaited.suspended import drop, lib, one, parked, word


class Pool:
    """Hands out what is in a queue, in the ways in which libraries do."""

    def __init__(self, size):
        self.idle = asyncio.LifoQueue()
        for number in range(size):
            self.idle.put_nowait(number)

    def acquire(self):
        return Acquired(self)

    @contextlib.asynccontextmanager
    async def connection(self):
        item = await self.idle.get()
        try:
            yield item
        finally:
            self.idle.put_nowait(item)


class Acquired:
    def __init__(self, pool):
        self.pool, self.item = pool, None

    async def __aenter__(self):
        self.item = await self.take()
        return self.item

    async def take(self):
        return await self.pool.idle.get()

    async def __aexit__(self, *_):
        self.pool.idle.put_nowait(self.item)


class Limiter:
    """Is entered itself."""

    def __init__(self):
        self.free = asyncio.Event()
        self.free.set()

    async def __aenter__(self):
        while not self.free.is_set():
            await self.free.wait()
        self.free.clear()

    async def __aexit__(self, *_):
        self.free.set()


async def items_of_pools():
    """Who is inside of the block of an item is found through the object that was entered."""

    async def uses(entered, seconds):
        async with entered:
            await asyncio.sleep(seconds)

    async def by_hand(pool):
        item = await pool.idle.get()
        await asyncio.sleep(60)
        pool.idle.put_nowait(item)

    def with_item(waiter):
        return lib.probe_task_with_item(word(waiter), word(probe.asyncio_words()[0]))

    for enter in Pool.acquire, Pool.connection:
        pool, other = Pool(1), Pool(1)
        holder = await parked(uses(enter(pool), 60))
        elsewhere = await parked(uses(enter(other), 60))
        waiters = [await parked(uses(enter(pool), 0)) for _ in range(2)]
        assert one(waiters[0]).kind == "queue", one(waiters[0])
        assert [with_item(waiter) for waiter in waiters] == [id(holder)] * 2, enter
        # The one that waits for it to be given back: nobody has it.
        assert with_item(holder) == 0, enter
        await drop(holder, elsewhere, *waiters)
        hand, waiter = await parked(by_hand(pool)), await parked(uses(enter(pool), 0))
        second = await parked(uses(enter(pool), 0))
        assert with_item(waiter) == 0, "both only enter"
        await drop(hand, waiter, second)
    limiter = Limiter()
    holder = await parked(uses(limiter, 60))
    waiter = await parked(uses(limiter, 0))
    assert with_item(waiter) == id(holder)
    await drop(holder, waiter)
