"""What ends outside of the loop: executors, peers, names to be resolved, processes."""

import asyncio
import socket
import sys
import threading

from awaited.suspended import drop, one, parked, read


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
