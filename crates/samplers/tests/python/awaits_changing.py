"""Short tasks by the ten thousand, born, awaiting and dying while a native thread follows all of
them without the GIL as fast as it can. Nothing may crash; what moved is torn, not wrong."""

import asyncio
import ctypes
import gc
import random
import sys
import time

import probe

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
end = 0.0
count = dict.fromkeys(["tasks", "classes", "collections"], 0)


async def nap(depth):
    if depth:
        return await nap(depth - 1)
    await asyncio.sleep(random.random() * 0.002)


async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def reads(n):
    async for _ in numbers(n):
        pass


async def locked(lock):
    async with lock:
        await asyncio.sleep(0.0005)


async def limited():
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    except asyncio.TimeoutError:
        pass


async def gathers():
    await asyncio.gather(*(nap(random.randrange(6)) for _ in range(5)), reads(2))


async def strange():
    """Classes that come and go, so that types die under the reader."""

    class Waits:
        def __init__(self):
            self.filler = [object() for _ in range(random.randrange(30))]

        def __await__(self):
            yield from asyncio.sleep(0.0005).__await__()

    await Waits()
    count["classes"] += 1


async def abandoned():
    """Tasks nobody awaits, cancelled or collected at any point."""
    task = asyncio.ensure_future(nap(random.randrange(30)))
    await asyncio.sleep(0)
    if random.random() < 0.5:
        task.cancel()


async def churn():
    lock = asyncio.Lock()
    while time.monotonic() < end:
        makers = [lambda: nap(random.randrange(20)), lambda: reads(3), lambda: locked(lock),
                  limited, gathers, strange, abandoned]
        tasks = [asyncio.ensure_future(random.choice(makers)()) for _ in range(60)]
        await asyncio.gather(*tasks, return_exceptions=True)
        count["tasks"] += len(tasks)


def collections():
    while time.monotonic() < end:
        gc.collect()
        count["collections"] += 1
        time.sleep(0.005)


def loops():
    """A second loop on another thread, and loops that end."""
    while time.monotonic() < end:
        asyncio.run(gathers())


def changing():
    """What the reader counts: chains, frames, torn."""
    global end
    end = time.monotonic() + SECONDS
    tasks = ctypes.c_size_t(probe.asyncio_words()[0])
    return probe.changing(lambda: probe.lib.probe_awaits_changing_start(tasks), (collections, loops),
                          lambda: asyncio.run(churn()))


def main():
    probe.attach()
    chains = frames = torn = 0
    # On a busy machine one changing may be looked at too seldom to say anything.
    for _ in range(10):
        chains, frames, torn = map(sum, zip((chains, frames, torn), changing()))
        if chains > 100 and frames > 100:
            break
    assert chains > 100 and frames > 100, (chains, frames, torn)
    print("%d tasks made; %d chains of %d frames read, %d torn; %s" % (
        count["tasks"], chains, frames, torn, {k: v for k, v in count.items() if k != "tasks"}))


main()
