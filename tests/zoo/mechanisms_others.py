"""Mechanisms in which another thread or process is to blame, or the whole process is stopped.

The words and marks are those of mechanisms.py.
"""

from __future__ import annotations

import textwrap

from mechanisms import ASK, IN_SIGHT, PEER, Draw, Ill, busy, ill, seconds

LOCKS = {"lock": "threading.Lock()", "rlock": "threading.RLock()", "condition": "threading.Condition()"}


def held(draw: Draw, what: str, setup: str = "", **more: object) -> Ill:
    """A lock that a thread of the program holds while it does `what`."""
    kind = draw.choice(sorted(LOCKS))
    return Ill(
        "lock-wait",
        "other",
        "with @gate:\n    @seen[n % 50] = n",
        setup=f"@gate, @seen = {LOCKS[kind]}, {{}}\n{setup}",
        holder=what,
        around="if SICK:\n    with @gate:\n        KEEP\nelse:\n    KEEP",
        every=True,
        **more,  # type: ignore[arg-type]
    )


@ill
def lock_sleep(draw: Draw) -> Ill:
    return held(draw, f"time.sleep({seconds(draw)})")


@ill
def lock_digest(draw: Draw) -> Ill:
    return held(draw, busy(draw, 'hashlib.pbkdf2_hmac("sha256", b"x", b"y", 60_000)'), extension=True)


@ill
def lock_peer(draw: Draw) -> Ill:
    made = held(
        draw, ASK.format(what='b"s"'), 'HOST = "127.0.0.1"\n@port = beside.start("peer.py")'
    )
    made.peer = PEER.replace("PAUSE", str(seconds(draw)))
    return made


@ill
def lock_by_hand(draw: Draw) -> Ill:
    made = held(draw, f"time.sleep({seconds(draw)})")
    made.setup = made.setup.replace("threading.Condition()", "threading.Lock()")
    made.sick = "@gate.acquire()\ntry:\n    @seen[n % 50] = n\nfinally:\n    @gate.release()"
    made.around = (
        "if SICK:\n    @gate.acquire()\n    try:\n        KEEP\n    finally:\n        @gate.release()\n"
        "else:\n    KEEP"
    )
    return made


@ill
def lock_file(draw: Draw) -> Ill:
    return Ill(
        "lock-wait",
        "other",
        "with open(@path, 'w') as @f:\n    fcntl.flock(@f, fcntl.LOCK_EX)",
        setup="@path = os.path.join(tempfile.mkdtemp(), 'l')\nopen(@path, 'w').close()",
        begin="beside.spawn('peer.py', @path, int(SICK))",
        peer="import fcntl, sys, time, threading, os\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()\n"
        f"while True:\n    time.sleep(1.6)\n    with open(sys.argv[1], 'w') as f:\n"
        f"        fcntl.flock(f, fcntl.LOCK_EX)\n        time.sleep({seconds(draw)} * int(sys.argv[2]))\n",
        every=True,
        shapes=("direct", "library", "callback"),
    )


def interpreter(what: str, setup: str) -> Ill:
    """A thread that holds the GIL inside one call of C."""
    return Ill(
        "gil-wait",
        "other",
        "pass",
        setup=setup,
        holder=what,
        judge_where=False,
        extension=True,
        shapes=("direct", "library", "callback"),
        servers=IN_SIGHT,
    )


@ill
def gil_sort(draw: Draw) -> Ill:
    return interpreter(
        "sorted(@rows)",
        "@rows = [random.random() for _ in range(1_800_000 if SICK else 500)]",
    )


@ill
def gil_regex(draw: Draw) -> Ill:
    return interpreter("re.match(r'(a+)+$', 'a' * (23 if SICK else 8) + 'b')", "")


@ill
def gil_dumps(draw: Draw) -> Ill:
    return interpreter(
        "json.dumps(@rows)",
        "@rows = [[i, i + 1, str(i)] for i in range(450_000 if SICK else 50)]",
    )


@ill
def gil_number(draw: Draw) -> Ill:
    return interpreter(
        "str(@big)",
        "sys.set_int_max_str_digits(0)\n@big = 7 ** (110_000 if SICK else 50)",
    )


@ill
def pool_workers(draw: Draw) -> Ill:
    size = draw.randint(1, 3)
    return Ill(
        "pool-wait",
        "other",
        "@crew.submit(len, 'x').result()",
        setup=f"@crew = ThreadPoolExecutor({size})",
        holder=f"time.sleep({seconds(draw)} if SICK else 0.001)",
        around=f"for _ in range({size}):\n    @crew.submit(KEPT)",
        every=True,
        shapes=("direct", "library", "callback"),
    )


@ill
def pool_queue(draw: Draw) -> Ill:
    size = draw.randint(1, 3)
    return Ill(
        "pool-wait",
        "other",
        "@one = @free.get()\n@free.put(@one)",
        setup=f"@free = queue.Queue()\nfor @one in range({size}):\n    @free.put(@one)",
        holder=f"time.sleep({seconds(draw)} if SICK else 0.001)",
        around=f"@mine = [@free.get() for _ in range({size})]\nKEEP\nfor @one in @mine:\n    @free.put(@one)",
        every=True,
    )


@ill
def pool_permits(draw: Draw) -> Ill:
    return Ill(
        "pool-wait",
        "other",
        "with @permits:\n    pass",
        setup="@permits = threading.BoundedSemaphore(1)",
        holder=f"time.sleep({seconds(draw)} if SICK else 0.001)",
        around="with @permits:\n    KEEP",
        every=True,
        accept=["lock-wait"],
    )


@ill
def pool_processes(draw: Draw) -> Ill:
    return Ill(
        "pool-wait",
        "other",
        "@crew.apply(abs, (n,))",
        setup="",
        begin=f"""global @crew
@crew = multiprocessing.get_context("fork").Pool(2)
def @feed():
    while True:
        time.sleep(1.6)
        @crew.map(time.sleep, [{seconds(draw)} if SICK else 0.001] * 2)
threading.Thread(target=@feed, daemon=True).start()""",
        every=True,
        shapes=("direct", "callback"),
        servers=("plain", "reference", "flask"),
    )


@ill
def deadlock_crossed(draw: Draw) -> Ill:
    limit = seconds(draw)
    return Ill(
        "deadlock-timeout",
        "other",
        f"@t = threading.Thread(target=@holder)\n@t.start()\nwith @one:\n    time.sleep(0.04)\n"
        f"    if @two.acquire(timeout={limit}):\n        @two.release()\n@t.join()",
        "pass",
        setup="@one, @two = threading.Lock(), threading.Lock()",
        holder=f"with @two:\n    time.sleep(0.04)\n    if @one.acquire(timeout={limit}):\n"
        "        @one.release()",
        around="",
        shapes=("direct", "library"),
    )


@ill
def stopped_signal(draw: Draw) -> Ill:
    return Ill(
        "stopped",
        "other",
        "pass",
        begin="if SICK:\n    subprocess.Popen(['sh', '-c', f'while sleep 1.7; do kill -STOP "
        f"{{os.getpid()}}; sleep {seconds(draw)}; kill -CONT {{os.getpid()}} || exit; done'])",
        judge_where=False,
        slow_ms=250,
        shapes=("direct",),
        servers=("plain", "reference", "flask"),
    )


@ill
def starved_pinned(draw: Draw) -> Ill:
    return Ill(
        "cpu-starved",
        "other",
        "pass",
        begin="@cpu = min(os.sched_getaffinity(0))\nfor _ in range(4):\n"
        "    beside.spawn('peer.py', @cpu, int(SICK))\nos.nice(19)\nos.sched_setaffinity(0, {@cpu})",
        peer=textwrap.dedent(f'''
            import os, sys, threading, time
            os.sched_setaffinity(0, {{int(sys.argv[1])}})
            threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
            while True:
                time.sleep(1.7)
                end = time.monotonic() + {seconds(draw)} * int(sys.argv[2])
                while time.monotonic() < end:
                    pass
        '''),
        judge_where=False,
        shapes=("direct",),
        servers=("plain", "reference", "flask"),
    )
