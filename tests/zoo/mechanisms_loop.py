"""Mechanisms on an event loop: code that blocks the loop, and awaits of a task.

The words and marks are those of mechanisms.py.
"""

from __future__ import annotations

from mechanisms import ILLS, PEER, Draw, Ill, ill, seconds


def on_loop(name: str) -> None:
    """The same function on an event loop: it blocks the loop."""
    own = ILLS[name]

    def make(draw: Draw) -> Ill:
        made = own(draw)
        made.cause, made.servers = "event-loop-blocked", ("loop",)
        made.accept = []
        made.shapes = ("direct", "library", "callback")
        return made

    ILLS[f"blocked_{name}"] = make


for _name in ("sleep_nap", "cpu_loop", "cpu_regex", "cpu_compress", "downstream_ask", "downstream_page",
              "child_run"):
    on_loop(_name)


def task(cause: str, sick: str, fixed: str = "pass", **more: object) -> Ill:
    """A mechanism of a coroutine's own."""
    kind = "other" if "holder" in more else "task"
    # type: ignore[arg-type]
    return Ill(cause, kind, sick, fixed, servers=("loop",), shapes=("direct", "library"), **more)


@ill
def task_sleep(draw: Draw) -> Ill:
    return task("sleep", f"await asyncio.sleep({seconds(draw)})", "await asyncio.sleep(0)")


@ill
def task_lock(draw: Draw) -> Ill:
    return task(
        "lock-wait",
        "async with @gate:\n    @seen[n % 50] = n",
        setup="@gate, @seen = asyncio.Lock(), {}",
        holder=f"await asyncio.sleep({seconds(draw)})",
        around="if SICK:\n    async with @gate:\n        KEEP\nelse:\n    KEEP",
        every=True,
    )


@ill
def task_permits(draw: Draw) -> Ill:
    return task(
        "pool-wait",
        "async with @permits:\n    pass",
        setup="@permits = asyncio.Semaphore(1)",
        holder=f"await asyncio.sleep({seconds(draw)} if SICK else 0.001)",
        around="async with @permits:\n    KEEP",
        every=True,
    )


@ill
def task_stream(draw: Draw) -> Ill:
    body = (
        "@r, @w = await asyncio.open_connection('127.0.0.1', @port)\n@w.write({what})\n"
        "await @r.read(1)\n@w.close()"
    )
    return task(
        "downstream-wait",
        body.format(what="b's'"),
        body.format(what="b'n'"),
        setup="@port = beside.start('peer.py')",
        peer=PEER.replace("PAUSE", str(seconds(draw))),
    )


@ill
def task_executor(draw: Draw) -> Ill:
    return task(
        "pool-wait",
        "await asyncio.get_running_loop().run_in_executor(@crew, len, 'x')",
        setup=f"@crew = ThreadPoolExecutor(2)\ndef @work():\n    time.sleep({seconds(draw)} if SICK else 0.001)",
        holder="pass",
        around="for _ in range(2):\n    @crew.submit(@work)",
        every=True,
        blamed=("@work",),
    )


@ill
def task_handed(draw: Draw) -> Ill:
    setup = f"def @work():\n    time.sleep({seconds(draw)})"
    return task("sleep", "await asyncio.to_thread(@work)", setup=setup, places=("@work",))
