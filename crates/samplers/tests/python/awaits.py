"""Suspended asyncio tasks: the chain of awaits must equal what CPython's own objects say, and what
is awaited must be told, through every way in which one thing awaits another."""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
import threading
import time

import probe

lib = probe.held  # with the GIL: the loop stands still while it is read
lib.probe_task_holding.restype = ctypes.c_size_t
lib.probe_task_with_item.restype = ctypes.c_size_t
lib.probe_time_suspended.restype = ctypes.c_uint64
NEW = sys.version_info >= (3, 11)


def word(value):
    return ctypes.c_size_t(id(value) if not isinstance(value, int) else value)


class Chain:
    def __init__(self, text):
        head, *frames = text.splitlines()
        kind, limit, fd, lock, task = head.split(" ")
        self.kind, self.limit_ms, self.fd = kind, int(limit), int(fd)
        self.lock, self.task = int(lock), int(task)
        rows = [line.split("\t") for line in frames]
        self.frames = [(name, os.path.basename(file), int(line)) for name, file, line in rows]
        self.names = [name.rsplit(".", 1)[-1] for name, _, _ in self.frames]

    def __repr__(self):
        return "%s limit=%s fd=%s %s" % (self.kind, self.limit_ms, self.fd, self.frames)


def read(task):
    text = probe.text(lib.probe_suspended, word(task))
    if text.startswith("torn read"):
        return text
    return [Chain(part) for part in text.split("\n\n") if part]


def one(task):
    found = read(task)
    assert isinstance(found, list) and len(found) == 1, found
    return found[0]


def by_cpython(task):
    """The chain as the coroutines' own attributes tell it, innermost first."""
    frames, next_ = [], task.get_coro()
    while next_ is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(next_, prefix + "_frame", None)
            if frame is not None:
                code = frame.f_code
                name = getattr(code, "co_qualname", code.co_name)
                frames.append((name, os.path.basename(code.co_filename), frame.f_lineno))
                break
        else:
            break
        next_ = getattr(next_, prefix + ("_yieldfrom" if prefix == "gi" else "_await"), None)
    return frames[::-1]


async def settle(turns=4):
    for _ in range(turns):
        await asyncio.sleep(0)


async def parked(coroutine):
    task = asyncio.ensure_future(coroutine)
    await settle()
    await asyncio.sleep(0.01)
    return task


async def drop(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def deep(depth, leaf):
    if depth:
        return await deep(depth - 1, leaf)
    here = list(range(40))  # a frame larger than what is read at once
    await leaf
    return here


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

    async def told(what):
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
        # Both wait for who holds it by hand; they are entering only.
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
    waits = [(told(condition), "condition"), (event.wait(), "event"), (queue.get(), "queue")]
    for coroutine, kind in waits:
        task = await parked(coroutine)
        assert one(task).kind == kind, one(task)
        await drop(task)


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
    """As anyio's: nothing but its tasks leads from who waits in its block to them."""

    def __init__(self):
        self._tasks = set()

    def start(self, coroutine):
        self._tasks.add(asyncio.ensure_future(coroutine))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await drop(*self._tasks)


async def groups():
    """Who waits for a notice in the block of a group that its own file opened waits for its tasks."""

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


async def executors():
    loop, go = asyncio.get_running_loop(), threading.Event()

    async def hands_over():
        await loop.run_in_executor(None, go.wait)

    task = await parked(hands_over())
    got = one(task)
    assert got.kind == "executor" and got.names == ["hands_over"], got
    go.set()
    await task


async def peers():
    arrived = asyncio.Queue()

    async def serve(reader, writer):
        await arrived.put(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    other = await asyncio.open_connection("127.0.0.1", port)

    class Client:
        """Waits for an answer in a future of its own, as client libraries do."""

        def __init__(self):
            self.transport, self.answer = writer.transport, None

        async def ask(self):
            self.answer = asyncio.get_running_loop().create_future()
            return await self.answer

    for coroutine, kind in ((reader.readline(), "socket"), (Client().ask(), "future")):
        task = await parked(coroutine)
        got = one(task)
        assert got.kind == kind, got
        assert got.fd == writer.get_extra_info("socket").fileno(), got
        await drop(task)

    class Both(Client):
        def __init__(self):
            super().__init__()
            self.second = other[1].transport

    task = await parked(Both().ask())
    assert one(task).fd == -1, "two sockets, neither is named"
    await drop(task)

    async def receives():
        await asyncio.get_running_loop().sock_recv(reading, 10)

    reading, end = socket.socketpair()
    reading.setblocking(False)
    task = await parked(receives())
    assert (one(task).kind, one(task).fd) == ("socket", reading.fileno()), one(task)
    await drop(task)
    reading.close(), end.close()
    for stream in (writer, other[1]):
        stream.close()
    server.close()


async def resolving():
    """A slow resolver: `getaddrinfo` stands in an executor."""
    original, go = socket.getaddrinfo, threading.Event()

    def slow(*words, **more):
        go.wait()
        return original(*words, **more)

    socket.getaddrinfo = slow
    try:
        task = await parked(asyncio.open_connection("localhost.invalid", 9))
        assert one(task).kind == "resolve", one(task)
        go.set()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        socket.getaddrinfo = original


async def children():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(60)", stdout=asyncio.subprocess.PIPE
    )
    for coroutine in (process.wait(), process.communicate()):
        task = await parked(coroutine)
        found = read(task)
        assert found and all(chain.kind == "child-process" for chain in found), found
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    process.kill()
    await process.wait()


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
