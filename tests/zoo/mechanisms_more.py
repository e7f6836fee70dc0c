"""Mechanisms whose time passes in the system: forks of a large process, lookups of names; and two
defects in one program, in drawn shares.

The words and marks are those of mechanisms.py.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from mechanisms import ASK, PEER, Draw, Ill, ill, seconds

# Pages of 4 KiB: with huge pages the tables are small, and copying them is quick.
BALLAST = """@ballast = mmap.mmap(-1, (SIZE if SICK else 1) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
@ballast.madvise(mmap.MADV_NOHUGEPAGE)
for @i in range(0, len(@ballast), 4096):
    @ballast[@i] = 1"""


def forking(draw: Draw, body: str) -> Ill:
    """`body` again and again, in a process with much memory, for a drawn time."""
    loop = f"@t = time.monotonic() + {seconds(draw)}\nwhile time.monotonic() < @t:\n"
    return Ill(
        "fork",
        "own",
        loop + body,
        "subprocess.run(['true'], check=True)",
        setup=BALLAST.replace("SIZE", str(draw.randint(1100, 1700))),
        # A thread's start is not in the request's way where its address space is being copied.
        shapes=("direct", "library", "callback"),
        servers=("plain", "reference", "flask", "gunicorn"),
    )


@ill
def fork_bare(draw: Draw) -> Ill:
    # Not waited for: the time in which a child gives its copy back is not the fork's.
    return forking(
        draw,
        "    @pid = os.fork()\n    if not @pid:\n        os._exit(0)\n    os.waitpid(-1, os.WNOHANG)",
    )


@ill
def fork_crowd(draw: Draw) -> Ill:
    made = forking(
        draw, "    @pid = os.fork()\n    if not @pid:\n        os._exit(0)\n    @pids.append(@pid)"
    )
    made.sick = f"@pids = []\n{made.sick}\nfor @pid in @pids:\n    os.waitpid(@pid, 0)"
    return made


@ill
def fork_hook(draw: Draw) -> Ill:
    made = forking(draw, "    subprocess.run(['true'], preexec_fn=@hook)")
    made.setup += "\n\n\ndef @hook():\n    os.umask(0o22)"
    return made


@ill
def dns_silent(draw: Draw) -> Ill:
    """A name server of the program's own says nothing to the first queries for one name in eighty,
    and the C library asks again after a second."""
    ask = draw.choice(
        (
            "socket.getaddrinfo(f'h{next(@count)}.example', 80)",
            "socket.gethostbyname(f'h{next(@count)}.example')",
            "socket.getaddrinfo(f'h{next(@count)}.example', None, family=socket.AF_INET)",
        )
    )
    return Ill(
        "dns",
        "own",
        ask,
        setup="@count = itertools.count()\nbeside.start('peer.py', service.NAMESERVER, int(SICK))",
        peer=(Path(__file__).resolve().parent / "dns_lookup/peer.py").read_text("utf-8"),
        every=True,
        slow_ms=300,
        needs="mount",
        servers=("plain", "reference", "flask", "worker", "pooled"),
    )


# Causes that may come together, and what the function does for {t} seconds.
PARTS = {
    "sleep": "time.sleep({t})",
    "cpu": "@x = {clock}() + {t}\nwhile {clock}() < @x:\n    {work}",
    "subprocess-wait": "subprocess.run(['sleep', '{t}'], check=True)",
    "downstream-wait": ASK.format(what='b"s"'),
}


WORK = ("re.match(r'(a+)+$', 'a' * 16 + 'b')", "sum(@k * @k % 7 for @k in range(300))")
# On a busy machine computing for some CPU time takes longer, and for some time computes less: in
# either case the larger share remains the larger.
CLOCKS = {"greater": "time.thread_time", "lesser": "time.monotonic"}


def two(draw: Draw, sick: str) -> Ill:
    """Two causes, the greater with a drawn share, each in a function of its own."""
    greater, lesser = draw.sample(sorted(PARTS), 2)
    whole, share = draw.uniform(0.55, 0.75), draw.uniform(0.6, 0.7)
    times = {greater: round(whole * share, 3), lesser: round(whole * (1 - share), 3)}
    work = draw.choice(WORK)

    def body(cause: str) -> str:
        clock = CLOCKS["greater" if cause == greater else "lesser"]
        text = PARTS[cause].replace("{t}", str(times[cause])).replace("{clock}", clock)
        return textwrap.indent(text.replace("{work}", work), "    ")

    setup, peer = "", ""
    if "downstream-wait" in times:
        setup = 'HOST = "127.0.0.1"\n@port = beside.start("peer.py")\n\n\n'
        peer = PEER.replace("PAUSE", str(times["downstream-wait"]))
    setup += f"def @greater():\n{body(greater)}\n\n\ndef @lesser():\n{body(lesser)}"
    return Ill(
        greater,
        "own",
        sick,
        setup=setup,
        peer=peer,
        places=("@greater",),
        then=lesser,
        then_place="@lesser",
        settings={"post": "5s"},
        slow_ms=120,
        # Not FastAPI: its first requests import modules, a third cause on a busy machine.
        servers=("plain", "reference", "flask", "gunicorn", "worker"),
    )


@ill
def two_in_a_request(draw: Draw) -> Ill:
    """Both in each slow request, in a drawn order."""
    return two(draw, "\n".join(draw.sample(("@greater()", "@lesser()"), 2)))


@ill
def two_in_turns(draw: Draw) -> Ill:
    """Each in every other slow request."""
    made = two(draw, "@greater() if next(@turns) % 2 else @lesser()")
    made.setup = f"@turns = itertools.count({draw.randint(0, 1)})\n\n\n{made.setup}"
    return made
