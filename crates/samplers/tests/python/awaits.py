"""Suspended asyncio tasks: the chain of awaits must equal what CPython's own objects say, and what
is awaited must be named, through every way in which one thing awaits another."""

import asyncio
import ctypes
import time

import probe
from awaited.chains import chains, states
from awaited.mutexes import locks
from awaited.other_tasks import groups, limits, several
from awaited.outside import children, executors, peers, resolving
from awaited.pooled import items_of_pools
from awaited.suspended import deep, drop, lib, parked, settle, word


async def the_set():
    tasks = [asyncio.ensure_future(asyncio.sleep(60)) for _ in range(40)]
    await settle()
    found = set(map(int, probe.text(lib.probe_tasks, TASKS).split()))
    assert {id(task) for task in tasks} <= found <= {id(task) for task in asyncio.all_tasks()}
    await drop(*tasks)


EVERYWHERE = (chains, states, locks, items_of_pools, limits, several, groups, executors, the_set)


async def main():
    for part in (*EVERYWHERE, peers, resolving, children):
        await part()
    leaf = asyncio.get_running_loop().create_future()
    task = await parked(deep(10, leaf))
    took = lib.probe_time_suspended(word(task), ctypes.c_size_t(300)) / 1000
    await drop(task)
    return took


probe.attach()
TASKS = word(probe.asyncio_words()[0])
start = time.monotonic()
took = asyncio.run(main())
loops = "asyncio"
try:
    import uvloop
except ImportError:
    pass
else:
    loops = "asyncio, uvloop"
    loop = uvloop.new_event_loop()
    for part in EVERYWHERE:
        loop.run_until_complete(part())
    loop.close()
print("%s: a chain of 11 frames in %.0f us" % (loops, took))
