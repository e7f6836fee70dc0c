"""For a request on an event loop that awaits, the verdict names the function, file and line of the
await, whatever its form, and the blocker."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from conftest import Bench, on_a_busy_machine

FRAME = """
import asyncio, contextlib, json, os, socket, threading, time
import dashcam

dashcam.start(service="awaits", slow="200ms", post="100ms", cooldown="60s")

{parts}

async def handle(n):
    with dashcam.request("GET /"):
        await asyncio.sleep(0.001)
        if n == 30:
            await wait()

async def main():
    await prepare()
    for n in range(40):
        await handle(n)
    await asyncio.sleep(0.5)

async def prepare():
    pass

{more}

asyncio.run(main())
print(dashcam.snap("asked"))
"""

# name: parts of the program, cause, waiting function, text of its line, culprit's function
CASES: dict[str, tuple[str, str, str, str, str | None]] = {
    "sleep": ("""
async def rest():
    await asyncio.sleep(0.5)
async def wait():
    await rest()
""", "sleep", "rest", "await asyncio.sleep(0.5)", None),
    "gathered": ("""
async def short():
    await asyncio.sleep(0.05)
async def long():
    await asyncio.sleep(0.5)
async def wait():
    await asyncio.gather(short(), long(), short())
""", "sleep", "long", "await asyncio.sleep(0.5)", None),
    "limited": ("""
never = None
async def backoff():
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(never.wait(), 0.5)
async def wait():
    await backoff()
async def prepare():
    global never
    never = asyncio.Event()
""", "deadlock-timeout", "backoff", "await asyncio.wait_for(", None),
    "lock": ("""
lock = None
async def flush():
    async with lock:
        await asyncio.sleep(0.6)
async def update():
    async with lock:
        pass
async def wait():
    task = asyncio.ensure_future(flush())
    await asyncio.sleep(0.001)
    await update()
    await task
async def prepare():
    global lock
    lock = asyncio.Lock()
""", "lock-wait", "update", "async with lock:", "flush"),
    "semaphore": ("""
room = None
async def occupy():
    async with room:
        await asyncio.sleep(0.6)
async def fetch():
    async with room:
        pass
async def wait():
    tasks = [asyncio.ensure_future(occupy()) for _ in range(2)]
    await asyncio.sleep(0.001)
    await fetch()
    await asyncio.gather(*tasks)
async def prepare():
    global room
    room = asyncio.Semaphore(2)
""", "pool-wait", "fetch", "async with room:", "occupy"),
    "queue": ("""
pool = None
async def connection():
    return await pool.get()
async def wait():
    asyncio.get_running_loop().call_later(0.5, pool.put_nowait, 1)
    await connection()
async def prepare():
    global pool
    pool = asyncio.Queue()
""", "pool-wait", "connection", "return await pool.get()", None),
    "full queue": ("""
lane = reader = None
async def ship():
    await asyncio.sleep(0.6)
async def pump(lane):
    while True:
        await lane.get()
        await ship()
async def emit(n):
    await lane.put(n)
async def wait():
    for n in range(3):
        await emit(n)
async def prepare():
    global lane, reader
    lane = asyncio.Queue(1)
    reader = asyncio.ensure_future(pump(lane))
""", "pool-wait", "emit", "await lane.put(n)", "ship"),
    "fulfilled by another": ("""
box = worker = None
async def store():
    await asyncio.sleep(0.6)
async def drain():
    while True:
        done = await box.get()
        await store()
        done.set_result(1)
async def submit():
    done = asyncio.get_running_loop().create_future()
    box.put_nowait(done)
    await done
async def wait():
    await submit()
async def prepare():
    global box, worker
    box = asyncio.Queue()
    worker = asyncio.ensure_future(drain())
""", "pool-wait", "submit", "await done", "store"),
    "fulfilled with a batch": ("""
box = worker = None
async def score(batch):
    await asyncio.sleep(0.6)
async def work_off():
    while True:
        batch = [(1, await box.get())]
        await score(batch)
        for n, done in batch:
            done.set_result(n)
async def submit():
    done = asyncio.get_running_loop().create_future()
    box.put_nowait(done)
    await done
async def wait():
    await submit()
async def prepare():
    global box, worker
    box = asyncio.Queue()
    worker = asyncio.ensure_future(work_off())
""", "pool-wait", "submit", "await done", "score"),
    "fulfilled with a batch of jobs": ("""
box = worker = None
class Job:
    def __init__(self, done):
        self.done = done
async def score(batch):
    await asyncio.sleep(0.6)
async def work_off():
    while True:
        batch = [await box.get()]
        await score(batch)
        for job in batch:
            job.done.set_result(1)
async def submit():
    job = Job(asyncio.get_running_loop().create_future())
    box.put_nowait(job)
    await job.done
async def wait():
    await submit()
async def prepare():
    global box, worker
    box = asyncio.Queue()
    worker = asyncio.ensure_future(work_off())
""", "pool-wait", "submit", "await job.done", "score"),
    # The request's own connection, which its handler has, is not what it waits for.
    "fulfilled by a thread": ("""
import queue
box, client = queue.Queue(), socket.socketpair()
class Request:
    def __init__(self, client):
        self.client = client
def query():
    time.sleep(0.5)
def serve():
    while True:
        loop, done = box.get()
        query()
        loop.call_soon_threadsafe(done.set_result, 1)
async def submit(n):
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    box.put((loop, done))
    await done
async def answer(request):
    await submit(1)
async def wait():
    await answer(Request(client[0]))
threading.Thread(target=serve, daemon=True).start()
""", "pool-wait", "submit", "await done", "query"),
    "stream": ("""
port = 0
async def ask():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"x")
    answer = await reader.readline()
    writer.close()
async def wait():
    await ask()
async def prepare():
    global port
    async def serve(reader, writer):
        await reader.read(1)
        await asyncio.sleep(0.5)
        writer.write(b"y\\n")
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
""", "downstream-wait", "ask", "await reader.readline()", None),
    "executor": ("""
def convert():
    time.sleep(0.5)
async def wait():
    await asyncio.get_running_loop().run_in_executor(None, convert)
""", "sleep", "convert", "time.sleep(0.5)", None),
    "dns": ("""
original = socket.getaddrinfo
def slow(*words, **more):
    time.sleep(0.5)
    return original(*words, **more)
async def reach():
    socket.getaddrinfo = slow
    with contextlib.suppress(OSError):
        await asyncio.open_connection("localhost", 1)
async def wait():
    await reach()
""", "dns|sleep", "reach|slow", "", None),
    "child": ("""
async def convert():
    process = await asyncio.create_subprocess_exec("sleep", "0.5")
    await process.wait()
async def wait():
    await convert()
""", "subprocess-wait", "convert", "await process.wait()", None),
}


# From 3.14 on the interpreter reports when the task ran: nothing of these is an estimate.
EXACT = {"sleep", "gathered", "limited", "stream"} if sys.version_info >= (3, 14) else set()


@pytest.mark.parametrize("switches", ["on", "off"])
@pytest.mark.parametrize("case", CASES)
def test_the_await_is_named(bench: Bench, case: str, switches: str) -> None:
    parts, cause, function, line_text, culprit = CASES[case]
    replaced = "prepare" in parts
    code = FRAME.format(parts="" if replaced else parts, more=parts if replaced else "")
    result = bench.python(code, DASHCAM_SWITCHES=switches)
    assert result.returncode == 0, result.stderr
    why = bench.dashcam("why", result.stdout.strip().splitlines()[-1], "--json")
    verdict: dict[str, Any] = json.loads(why.stdout)
    assert verdict["causes"], why.stdout
    own = [found for found in verdict["causes"] if found["cause"] in cause.split("|")]
    # After findings that only a busy machine causes: no CPU for a process or its sampler.
    own_is_first = own[:1] == verdict["causes"][:1]
    assert own and (own_is_first or on_a_busy_machine()), [c["summary"] for c in verdict["causes"]]
    first = own[0]
    where = first["where"]
    assert where["function"] in function.split("|"), first["summary"]
    assert where["file"].endswith("program.py")
    lines = (bench.folder / "program.py").read_text("utf-8").splitlines()
    assert line_text in lines[where["line"] - 1], (first["summary"], lines[where["line"] - 1])
    # If a request, or its sampler, had no CPU for long, a part of its time is unexplained.
    least = 0.4 if on_a_busy_machine() else 0.7
    assert first["share"] > least or not own_is_first, first
    if culprit:
        assert first["culprit"] and first["culprit"]["function"] == culprit, first["summary"]
    if case in EXACT:
        assert first["confidence"] == "confirmed" or on_a_busy_machine(), first
    if case == "stream":
        assert first["target"] and first["target"].startswith("tcp 127.0.0.1:"), first


def test_a_request_that_only_computes_is_not_said_to_wait(bench: Bench) -> None:
    code = FRAME.format(parts="""
def digest():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))
async def wait():
    digest()
""", more="")
    result = bench.python(code)
    assert result.returncode == 0, result.stderr
    why = bench.dashcam("why", result.stdout.strip().splitlines()[-1], "--json")
    first = json.loads(why.stdout)["causes"][0]
    # On a busy machine it, or its sampler, has no CPU for half of that half second, which is true.
    # It must never be a wait.
    starved = first["cause"] in ("cpu-starved", "unknown") and on_a_busy_machine()
    assert first["cause"] in ("event-loop-blocked", "cpu", "cpu-starved") or starved, first["summary"]
    assert starved or first["where"]["function"] == "digest", first["summary"]
