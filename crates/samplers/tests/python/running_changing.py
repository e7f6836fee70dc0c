"""Tasks by the ten thousand, each done within one step, while a native thread asks which one runs, as
fast as it can and without the GIL. Each is named after its function and its number, and writes that
number when it begins: a name that is another's shows."""

import asyncio
import ctypes
import gc
import sys
import time

import _asyncio

import probe

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
number = (ctypes.c_uint64 * 1)()
end = 0.0
FUNCTION = """
async def job_{0}(n, spins):
    number[0] = n
    for _ in range(spins):
        pass

async def turn_{0}(turns):
    for _ in range(turns):
        await sleep(0)
        sum(range(300))
"""
jobs, turns = [], []
for i in range(40):
    space = {"number": number, "sleep": asyncio.sleep}
    exec(FUNCTION.format(i), space)
    jobs.append(space["job_%d" % i])
    turns.append(space["turn_%d" % i])


async def churn():
    loop = asyncio.get_running_loop()
    n = number[0]
    while time.monotonic() < end:
        for _ in range(50):
            n += 1
            job = jobs[n * 7 % len(jobs)]
            task = loop.create_task(job(n, n % 5 * 200), name="%s %d" % (job.__name__, n))
            await task
            # Its memory is the next one's.
            del task
        # Several that take turns; they have no number.
        several = [turns[(n + i) % len(turns)] for i in range(8)]
        await asyncio.gather(*[loop.create_task(turn(i % 4), name=turn.__name__ + " 0")
                               for i, turn in enumerate(several)])


async def others():
    """Tasks of other names that come and go on loops that do, too."""

    async def short():
        await asyncio.sleep(0)

    for _ in range(20):
        await asyncio.ensure_future(short())


def loops():
    while time.monotonic() < end:
        asyncio.run(others())


def collections():
    while time.monotonic() < end:
        gc.collect()
        time.sleep(0.005)


def changing():
    """What the reader counts: stacks, tasks, tasks of the changing."""
    global end
    end = time.monotonic() + SECONDS
    words = [ctypes.c_size_t(word) for word in (probe.asyncio_words()[1], id(_asyncio.Task))]
    return probe.changing(lambda: probe.lib.probe_running_changing_start(*words, number), (loops, collections),
                          lambda: asyncio.run(churn()))


def main():
    probe.attach()
    stacks = tasks = jobs_seen = 0
    # On a busy machine one changing may be looked at too seldom to say anything.
    for _ in range(10):
        stacks, tasks, jobs_seen = map(sum, zip((stacks, tasks, jobs_seen), changing()))
        if jobs_seen > 100:
            break
    wrong = probe.text(probe.lib.probe_wrong)
    assert not wrong, wrong
    assert jobs_seen > 100, (stacks, tasks, jobs_seen)
    print("%d tasks made; %d stacks read, %d with a task, %d of them of the changing" % (
        number[0], stacks, tasks, jobs_seen))


main()
