"""The defects of generated programs: real mechanisms, one function each.

A mechanism says what the guilty function does when the program is sick and when it is healthy. It
knows neither the server nor the shape: `generate.py` decides where the function lies, what calls
it, and how everything is called. `@` begins a name that the generator replaces by a name without a
meaning (`@row` becomes `vodaru`). `@guilty` is the function that delays the request, `@holder` the
culprit's function on another thread. Values in capitals are drawn.

    own         the request's own thread does it, wherever the shape puts that
    other       another thread or process does it to the request
    task        the request is a coroutine, and awaits it
"""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Ill:
    """One defect."""

    cause: str
    kind: str
    sick: str  # body of the guilty function; for `other` the victim's
    fixed: str = "pass"
    setup: str = ""  # module level, before the functions
    holder: str = ""  # body of the culprit's function; tests SICK itself
    around: str = ""  # body of the thread that calls it: `KEEP` is replaced by the call
    begin: str = ""  # at the start of the program
    peer: str = ""  # a script beside the program, in a process of its own
    every: bool = False  # the guilty function is called by every request
    extension: bool = False  # the time passes inside a C extension
    accept: list[str] = field(default_factory=list)
    judge_where: bool = True
    places: tuple[str, ...] = ("@guilty",)  # right answers for `where`
    blamed: tuple[str, ...] = ("@holder",)  # and for `culprit`, if there is one
    then: str = ""  # a second defect that costs less
    then_place: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    needs: str = ""  # of the machine, as in cases.py
    slow_ms: int = 180
    # Only these shapes make sense.
    shapes: tuple[str, ...] = ("direct", "library", "callback", "thread")
    servers: tuple[str, ...] = ("plain", "reference", "flask", "gunicorn", "worker", "pooled")


# A worker's job begins when a thread takes it from the queue: a delay of the whole process before
# that is not in any job.
IN_SIGHT = ("plain", "reference", "flask", "gunicorn", "pooled")

Draw = random.Random
ILLS: dict[str, Callable[[Draw], Ill]] = {}


def ill(make: Callable[[Draw], Ill]) -> Callable[[Draw], Ill]:
    """Registers a mechanism under its function's name."""
    ILLS[make.__name__] = make
    return make


def seconds(draw: Draw) -> float:
    """The length of one delay."""
    return round(draw.uniform(0.35, 0.7), 3)


def busy(draw: Draw, work: str) -> str:
    """`work` again and again, for a drawn amount of the thread's own CPU time."""
    return f"@x = time.thread_time() + {seconds(draw)}\nwhile time.thread_time() < @x:\n    {work}"


ASK = "@c = socket.create_connection((HOST, @port))\n@c.sendall({what})\n@c.recv(8)\n@c.close()"
PEER = textwrap.dedent('''
    import socket, sys, threading, time
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(server.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
    def talk(end):
        with end:
            while word := end.recv(1):
                time.sleep(PAUSE if word == b"s" else 0.0005)
                end.sendall(b"y")
    while True:
        threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()
''')


@ill
def sleep_nap(draw: Draw) -> Ill:
    return Ill("sleep", "own", f"time.sleep({seconds(draw)})", "time.sleep(0.0005)")


@ill
def sleep_retry(draw: Draw) -> Ill:
    times = draw.randint(3, 9)
    each = round(seconds(draw) / times, 4)
    return Ill("sleep", "own", f"for @i in range({times}):\n    time.sleep({each})")


@ill
def sleep_event(draw: Draw) -> Ill:
    return Ill("sleep", "own", f"threading.Event().wait({seconds(draw)})")


@ill
def sleep_select(draw: Draw) -> Ill:
    return Ill("sleep", "own", f"select.select([], [], [], {seconds(draw)})", extension=True)


@ill
def sleep_flag(draw: Draw) -> Ill:
    return Ill(
        "sleep",
        "own",
        f"@t = time.monotonic() + {seconds(draw)}\nwhile time.monotonic() < @t:\n    time.sleep(0.003)",
    )


@ill
def cpu_loop(draw: Draw) -> Ill:
    return Ill("cpu", "own", busy(draw, "sum(@k * @k % 7 for @k in range(300))"))


@ill
def cpu_regex(draw: Draw) -> Ill:
    return Ill(
        "cpu", "own", busy(draw, 're.match(r"(a+)+$", "a" * 17 + "b")'), extension=True
    )


@ill
def cpu_compress(draw: Draw) -> Ill:
    return Ill(
        "cpu",
        "own",
        busy(draw, "zlib.compress(@page, 9)"),
        setup="@page = random.Random(3).randbytes(400_000) + bytes(400_000)",
        extension=True,
    )


@ill
def cpu_digest(draw: Draw) -> Ill:
    return Ill(
        "cpu",
        "own",
        busy(draw, 'hashlib.pbkdf2_hmac("sha256", b"x", b"y", 60_000)'),
        extension=True,
    )


@ill
def cpu_dumps(draw: Draw) -> Ill:
    return Ill(
        "cpu",
        "own",
        busy(draw, "json.dumps(@rows)"),
        setup='@rows = [{"a": i, "b": [str(i)]} for i in range(9_000)]',
        extension=True,
    )


@ill
def cpu_compare(draw: Draw) -> Ill:
    return Ill(
        "cpu",
        "own",
        "sorted([(@i * 7919) % 100_003 for @i in range(60_000)], key=functools.cmp_to_key(@order))",
        setup="def @order(@a, @b):\n    return (@a > @b) - (@a < @b) + 0 * sum((@a, @b, 3))",
        places=("@order", "@guilty"),
    )


@ill
def cpu_query(draw: Draw) -> Ill:
    return Ill(
        "cpu",
        "own",
        "@q = sqlite3.connect(':memory:')\n@q.execute('with recursive c(x) as (values(1) union all "
        "select x + 1 from c where x < 3000000) select sum(x * x % 7) from c').fetchall()",
        extension=True,
    )


@ill
def gc_asked(draw: Draw) -> Ill:
    return Ill(
        "gc-pause",
        "own",
        "gc.collect()",
        "gc.collect(0)",
        setup="@heap = [[i] for i in range(3_000_000 if SICK else 10)]",
        slow_ms=120,
        shapes=("direct", "library", "callback"),
    )


@ill
def gc_allocation(draw: Draw) -> Ill:
    return Ill(
        "gc-pause",
        "own",
        "@new = [[@i] for @i in range(700_000)]\n@heap.append(@new)\nif len(@heap) > 12:\n"
        "    del @heap[6:]",
        setup="@heap = [[[i] for i in range(2_000_000 if SICK else 10)]]",
        slow_ms=120,
        accept=["cpu"],
        judge_where=False,
        shapes=("direct", "library"),
    )


@ill
def gc_elsewhere(draw: Draw) -> Ill:
    return Ill(
        "gc-pause",
        "other",
        "pass",
        setup="@heap = [[i] for i in range(3_000_000 if SICK else 10)]",
        holder="gc.collect()",
        judge_where=False,
        slow_ms=120,
        shapes=("direct", "library", "callback"),
        servers=IN_SIGHT,
    )


def downstream(draw: Draw, sick: str, fixed: str, times: int = 1) -> Ill:
    """Sends a request to the peer of `PEER`."""
    pause = round(seconds(draw) / times, 4)
    return Ill(
        "downstream-wait",
        "own",
        sick,
        fixed,
        setup='HOST = "127.0.0.1"\n@port = beside.start("peer.py")',
        peer=PEER.replace("PAUSE", str(pause)),
    )


@ill
def downstream_ask(draw: Draw) -> Ill:
    return downstream(draw, ASK.format(what='b"s"'), ASK.format(what='b"n"'))


@ill
def downstream_loop(draw: Draw) -> Ill:
    times = draw.randint(20, 60)
    body = (
        "@c = socket.create_connection((HOST, @port))\n"
        f"for @i in range({times}):\n    @c.sendall(b's')\n    @c.recv(8)\n@c.close()"
    )
    return downstream(draw, body, ASK.format(what='b"n"'), times)


@ill
def downstream_held(draw: Draw) -> Ill:
    """One connection for all requests, kept open; its answers come through a file object."""
    body = (
        "with @gate:\n    if not @kept:\n        @kept.append(socket.create_connection((HOST, @port))"
        ".makefile('rwb', 0))\n    @kept[0].write({what})\n    @kept[0].read(1)"
    )
    made = downstream(draw, body.format(what='b"s"'), body.format(what='b"n"'))
    made.setup += "\n@gate, @kept = threading.Lock(), []"
    return made


@ill
def downstream_page(draw: Draw) -> Ill:
    page = 'urllib.request.urlopen(f"http://127.0.0.1:{@port}/{word}").read()'
    made = downstream(draw, page.replace("{word}", "s"), page.replace("{word}", "n"))
    made.peer = textwrap.dedent(f'''
        import http.server, sys, threading, time
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep({seconds(draw)} if self.path == "/s" else 0.0005)
                self.send_response(200); self.send_header("Content-Length", "1"); self.end_headers()
                self.wfile.write(b"y")
            def log_message(self, *words): pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        server.daemon_threads = True
        print(server.server_port, flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
        server.serve_forever()
    ''')
    return made


@ill
def connect_full(draw: Draw) -> Ill:
    return Ill(
        "connect",
        "own",
        f"@e = socket.socket()\n@e.settimeout({seconds(draw)})\n@e.connect_ex(@name)\n@e.close()",
        "socket.create_connection(@name).close()",
        setup="""@peer = socket.socket()
@peer.bind(("127.0.0.1", 0))
@peer.listen(0 if SICK else 512)
@name = @peer.getsockname()
@full = [socket.socket() for _ in range(3 if SICK else 0)]
for @one in @full:
    @one.setblocking(False)
    @one.connect_ex(@name)""",
    )


@ill
def disk_sync(draw: Draw) -> Ill:
    times = draw.randint(30, 45)
    return Ill(
        "disk-io",
        "own",
        f"with tempfile.TemporaryFile(dir='.') as @f:\n    for _ in range({times}):\n"
        "        @f.write(@page)\n        @f.flush()\n        os.fsync(@f.fileno())",
        setup="@page = os.urandom(6 << 20)",
        slow_ms=150,
    )


@ill
def disk_commit(draw: Draw) -> Ill:
    return Ill(
        "disk-io",
        "own",
        "@q = sqlite3.connect(os.path.join(tempfile.mkdtemp(dir=@base), 'q'))\n"
        "@q.execute('pragma synchronous=full')\n@q.execute('create table t(a)')\n"
        "for @i in range(40):\n    @q.execute('insert into t values (?)', (@blob,))\n"
        "    @q.commit()\n@q.close()",
        setup="@base = tempfile.mkdtemp(dir='.')\n@blob = os.urandom(1 << 20)\n"
        "atexit.register(shutil.rmtree, @base, True)",
        slow_ms=150,
        extension=True,
    )


@ill
def pipe_full(draw: Draw) -> Ill:
    return Ill(
        "pipe-write",
        "own",
        "for _ in range(60):\n    os.write(@w, b'l' * 8_000)",
        setup="@r, @w = os.pipe()\n"
        "@sink = beside.spawn('peer.py', stdin=@r)",
        peer="import os, time\nwhile os.read(0, 16384):\n    time.sleep(0.012)\n",
    )


@ill
def pipe_log(draw: Draw) -> Ill:
    return Ill(
        "pipe-write",
        "own",
        "for @i in range(60):\n    @log.warning('l' * 8_000)",
        setup="@r, @w = os.pipe()\n@sink = beside.spawn('peer.py', stdin=@r)\n"
        "@log = logging.Logger('x')\n@log.addHandler(logging.StreamHandler(os.fdopen(@w, 'w')))",
        peer="import os, time\nwhile os.read(0, 16384):\n    time.sleep(0.012)\n",
    )


@ill
def child_run(draw: Draw) -> Ill:
    return Ill(
        "subprocess-wait", "own", f"subprocess.run(['sleep', '{seconds(draw)}'], check=True)"
    )


@ill
def child_output(draw: Draw) -> Ill:
    return Ill(
        "subprocess-wait",
        "own",
        f"subprocess.check_output(['sh', '-c', 'sleep {seconds(draw)}; echo y'])",
    )


@ill
def child_system(draw: Draw) -> Ill:
    return Ill("subprocess-wait", "own", f"os.system('sleep {seconds(draw)}')", extension=True)


@ill
def import_late(draw: Draw) -> Ill:
    return Ill(
        "import",
        "own",
        "sys.modules.pop('@late', None)\nimportlib.import_module('@late')",
        "importlib.import_module('@late')",
        setup="@dir = tempfile.mkdtemp()\n"
        "with open(os.path.join(@dir, '@late.py'), 'w') as @out:\n"
        "    @out.write('t = {}\\n' + ''.join(f't[{k}] = [{k}, {k} + 1]\\n' for k in range(60_000)))\n"
        "sys.path.insert(0, @dir)\nsys.dont_write_bytecode = True\nif not SICK:\n    import @late",
        shapes=("direct", "library", "thread"),
    )


@ill
def fault_fresh(draw: Draw) -> Ill:
    size = draw.randint(350, 450)
    return Ill(
        "page-fault",
        "own",
        f"@m = mmap.mmap(-1, {size} << 20)\nfor @i in range(0, {size} << 20, 4096):\n    @m[@i] = 1\n"
        "@m.close()",
        slow_ms=150,
        accept=["cpu"],
    )
