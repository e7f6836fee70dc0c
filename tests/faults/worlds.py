"""Worlds in which something is missing, full, limited or disturbing. A program runs bare and
recorded in the same world; its output, exit code and stderr, without dashcam's lines, must be
equal."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence

HERE = Path(__file__).resolve().parent
OWN_LINE = "dashcam: "
SECONDS = 120.0
MIB = 1 << 20

Note = Callable[[str, str, Optional[str]], None]


@dataclass
class World:
    """The environment of a program."""

    name: str
    # The program; None: the one of the call sites.
    program: Optional[str] = None
    # Commands run before it, by a shell in mount, time and process namespaces of its own.
    before: str = ""
    namespaces: str = ""
    limits: "tuple[tuple[int, int], ...]" = ()
    env: "tuple[tuple[str, str], ...]" = ()
    options: "tuple[str, ...]" = ()
    # Runs beside it, with its process id.
    beside: "Optional[Callable[[subprocess.Popen[str]], None]]" = None
    # Compares only that and how it ends: its output depends on the moment.
    only_code: bool = False
    quick: bool = False


BURST = """
    import signal
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    import runpy, sys
    try:
        runpy.run_path(sys.argv[1], run_name="__main__")
    finally:
        # Signals that come while it has no CPU are one.
        while len(hits) <= 10: pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        print("hit")
"""
SMALL_STACKS = """
    import threading
    threading.stack_size(64 << 10)
    import runpy, sys
    runpy.run_path(sys.argv[1], run_name="__main__")
"""
DEEP = """
    import dashcam, sys, threading
    sys.setrecursionlimit(4000)
    def down(n):
        return down(n + 1)
    def work():
        with dashcam.request("deep"):
            try:
                down(0)
            except RecursionError:
                print("too deep")
    threading.stack_size(64 << 20)
    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
"""
MANY = """
    import dashcam, threading
    threading.stack_size(64 << 10)
    go, sums = threading.Event(), []
    def work(n):
        go.wait()
        with dashcam.request("many"):
            sums.append(n)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(5000)]
        for thread in threads:
            thread.start()
        print(threading.active_count())
    finally:
        go.set()
    for thread in threads:
        thread.join()
    print(sum(sums), threading.active_count())
"""
CLOSES_ALL = """
    import dashcam, os, socket, time
    with dashcam.request("before"):
        time.sleep(0.1)
    os.closerange(3, 65536)
    pairs = [socket.socketpair() for _ in range(60)]
    files = [os.open("/dev/null", os.O_RDWR) for _ in range(60)]
    for turn in range(20):
        with dashcam.request("behind"):
            time.sleep(0.06 if turn == 5 else 0.01)
    print([fd.fileno() for pair in pairs for fd in pair], files)
    for one, other in pairs:
        other.sendall(b"for me")
        one.setblocking(False)
        print(one.recv(100), end=" ")
        try:
            print("more:", one.recv(100))
        except BlockingIOError:
            print("no more")
    for fd in files:
        os.fstat(fd)
"""
DAEMON = """
    import dashcam, os, sys, time
    with dashcam.request("before"):
        time.sleep(0.02)
    end, other = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(3, 4096):
                if fd != other:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            with dashcam.request("daemon"):
                time.sleep(0.08)
            os.write(other, repr([fd for fd in sorted(map(int, os.listdir("/proc/self/fd"))) if fd < 1024]).encode())
            os._exit(0)
        os._exit(0)
    os.close(other)
    os.wait()
    print(os.read(end, 200))
"""
ENDS = {
    "sys.exit in a thread": "threading.Thread(target=lambda: sys.exit(9)).start(); time.sleep(0.02)",
    "os._exit in a thread": "threading.Thread(target=lambda: os._exit(9)).start(); time.sleep(5)",
    "os._exit at once": "os._exit(5)",
    "an exception": "raise ValueError('as it should')",
    "SystemExit with a text": "raise SystemExit('so it ends')",
    "a daemon thread that runs on": "threading.Thread(target=spin, daemon=True).start()",
    "daemon threads in requests":
        "[threading.Thread(target=serve, daemon=True).start() for _ in range(20)]; time.sleep(0.05)",
    "work in atexit": "atexit.register(lambda: (time.sleep(0.05), print('last')))",
    "a fork in atexit": "atexit.register(lambda: os.fork() or os._exit(0))",
    "exec": "os.execv(sys.executable, [sys.executable, '-c', 'print(6 * 7)'])",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)",
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "SIGABRT": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()",
    "stdout closed": "sys.stdout.flush(); os.close(1)",
    "a thread that never started": "threading.Thread(target=spin)",
}
ENDING = """
    import atexit, dashcam, os, resource, signal, sys, threading, time
    def spin():
        while True:
            with dashcam.request("spins"):
                sum(range(1000))
    def serve():
        while True:
            with dashcam.request("serves"):
                time.sleep(0.001)
    for _ in range(3):
        with dashcam.request("before"):
            time.sleep(0.01)
    print("begins", flush=True)
    END
"""
ANY_MOMENT = """
    import dashcam, threading, time
    def serve():
        while True:
            with dashcam.request("serves"):
                time.sleep(0.001)
    for _ in range(4):
        threading.Thread(target=serve, daemon=True).start()
    time.sleep(DELAY)
"""


def stop_and_go(process: "subprocess.Popen[str]") -> None:
    """Stops it and lets it continue, at moments of no order."""
    moments = random.Random(7)
    while process.poll() is None:
        time.sleep(moments.uniform(0.001, 0.03))
        process.send_signal(signal.SIGSTOP)
        time.sleep(moments.uniform(0.001, 0.06))
        process.send_signal(signal.SIGCONT)


def kill_after(seconds: float) -> "Callable[[subprocess.Popen[str]], None]":
    def kill(process: "subprocess.Popen[str]") -> None:
        time.sleep(seconds)
        process.kill()
    return kill


def mounted(where: str, options: str) -> str:
    return f"mkdir -p {where} && mount -t tmpfs -o {options} tmpfs {where}"


def worlds(folder: str) -> "list[World]":
    out = f"{folder}/out"
    mount = "--mount --map-root-user" if os.geteuid() else "--mount"
    nothing_shared = "mount --make-rprivate / && "
    found = [
        World("as it is", quick=True),
        World("a full /dev/shm", before=nothing_shared + mounted("/dev/shm", "size=16k"), namespaces=mount, quick=True),
        World("a /dev/shm with room for a part of the box",
              before=nothing_shared + mounted("/dev/shm", "size=20m"), namespaces=mount),
        World("a /dev/shm that is read-only", before=nothing_shared + mounted("/dev/shm", "ro"), namespaces=mount),
        World("no /dev/shm", before=nothing_shared + "mount -t proc proc /dev/shm", namespaces=mount),
        World("a full folder for captures", before=nothing_shared + mounted(out, "size=16k"), namespaces=mount,
              options=("--out", out), quick=True),
        World("a read-only folder for captures", before=nothing_shared + mounted(out, "ro"), namespaces=mount,
              options=("--out", out)),
        World("no folder for captures", options=("--out", "/proc/none/at/all")),
        World("a file in the folder's place", options=("--out", "/dev/null")),
        World("no /proc", before=nothing_shared + "mount -t tmpfs tmpfs /proc", namespaces=mount),
        World("no /sys", before=nothing_shared + "mount -t tmpfs tmpfs /sys", namespaces=mount),
        World("files of 64 KiB at most", limits=((resource.RLIMIT_FSIZE, 64 << 10),)),
        World("no locked memory", limits=((resource.RLIMIT_MEMLOCK, 0),)),
        World("32 descriptors", limits=((resource.RLIMIT_NOFILE, 32),), quick=True),
        World("16 descriptors", limits=((resource.RLIMIT_NOFILE, 16),)),
        World("a main stack of 512 KiB", limits=((resource.RLIMIT_STACK, 512 << 10),)),
        World("thread stacks of 64 KiB", SMALL_STACKS),
        World("deep recursion", DEEP),
        World("5,000 threads", MANY),
        World("an interval timer of 1 ms", BURST, quick=True),
        World("stopped and continued", beside=stop_and_go),
        World("everything closed from 3 on", CLOSES_ALL, quick=True),
        World("a daemon that closes everything", DAEMON, quick=True),
        World("stdin, stdout and stderr closed", before="exec <&- >&- 2>&-"),
        World("stderr closed", before="exec 2>&-"),
        World("stderr is full", before="exec 2>/dev/full"),
        World("a clock that began long ago", namespaces="--time --monotonic 100000000 --fork"),
    ]
    for mib in (40, 60, 80, 100, 140, 180, 260):
        found.append(World(f"{mib} MiB of address space beyond the interpreter's",
                           limits=((resource.RLIMIT_AS, mib * MIB),)))
    for name, code in ENDS.items():
        found.append(World(f"ends by {name}", textwrap.dedent(ENDING).replace("END", code), quick="_exit" in code))
    for ms in range(0, 120, 5):
        program = textwrap.dedent(ANY_MOMENT).replace("DELAY", str(ms / 1000))
        found.append(World(f"the interpreter ends after {ms} ms of requests", program))
    for ms in range(20, 800, 40):
        found.append(World(f"kill -9 after {ms} ms", beside=kill_after(ms / 1000), only_code=True))
    return found


def command(world: World, words: Sequence[str]) -> "list[str]":
    if not world.before and not world.namespaces:
        return list(words)
    if not world.namespaces:
        return ["/bin/bash", "-c", world.before + '; exec "$@"', "bash", *words]
    inside = (world.before + " && " if world.before else "") + 'exec "$@"'
    return ["unshare", *world.namespaces.split(), "/bin/bash", "-c", inside, "bash", *words]


@dataclass
class Ended:
    code: Optional[int]
    out: str
    err: str


def run(world: World, words: Sequence[str], env: "dict[str, str]", folder: str) -> Ended:
    def limit() -> None:
        for which, most in world.limits:
            resource.setrlimit(which, (most, most))

    # A program may close its stdout or stderr: its output is compared by files. Each run has its own:
    # the process that judges a capture outlives the program, and writes when the next one runs.
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=folder) as out, \
            tempfile.TemporaryFile("w+", encoding="utf-8", dir=folder) as err:
        process = subprocess.Popen(command(world, words), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**os.environ, **dict(world.env), **env}, cwd=folder, text=True,
                                   preexec_fn=limit, start_new_session=True)
        if world.beside:
            world.beside(process)
        try:
            code: Optional[int] = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in (out, err):
            file.seek(0)
        return Ended(code, out.read(), err.read())


def base_of_address_space() -> int:
    """Bytes of address space that the interpreter itself takes, with the package loaded."""
    code = "import dashcam, subprocess, tempfile, socket, threading\n" \
           "print([l for l in open('/proc/self/status') if l.startswith('VmPeak')][0].split()[1])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True,
                          env={**os.environ, "DASHCAM_ENABLED": "0"})
    return int(done.stdout) << 10


def compared(world: World, expected: Ended, got: Ended) -> Optional[str]:
    if got.code != expected.code:
        return f"exit code {got.code}, bare {expected.code}; {got.err[-600:]!r}"
    if world.only_code:
        return None
    if got.out != expected.out:
        return f"stdout {got.out[-500:]!r}, bare {expected.out[-500:]!r}"
    err = "".join(line for line in got.err.splitlines(True) if not line.startswith(OWN_LINE))
    if err != expected.err:
        return f"stderr {err[-800:]!r}, bare {expected.err[-300:]!r}"
    return None


def all(note: Note, names: "list[str]", quick: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="dashcam-worlds-") as folder:
        base = base_of_address_space()
        known = worlds(folder)
        for name in names:
            if not any(name in world.name for world in known):
                raise SystemExit(f"faults: found the name {name!r}, wanted a part of one of "
                                 f"{', '.join(repr(world.name) for world in known)}")
        for world in known:
            wanted = any(name in world.name for name in names) if names else world.quick or not quick
            if wanted:
                one(world, note, folder, base)


def one(world: World, note: Note, folder: str, base: int) -> None:
    limits = tuple((which, most + base if which == resource.RLIMIT_AS else most) for which, most in world.limits)
    world.limits = limits
    program = [str(HERE / "program.py")]
    if world.program is not None:
        path = Path(folder, "world.py")
        path.write_text(textwrap.dedent(world.program), encoding="utf-8")
        program = [str(path), *program]
    dashcam = str(Path(sys.executable).with_name("dashcam"))
    options = ("--slow", "50ms", *(world.options or ("--out", f"{folder}/captures")))
    expected = run(world, [sys.executable, *program], {"DASHCAM_ENABLED": "0"}, folder)
    if expected.code is not None and expected.code in (120, 126, 127) or "unshare:" in expected.err:
        print(f"left out: {world.name}: {expected.err.strip()[-200:]}", file=sys.stderr)
        return
    got = run(world, [dashcam, "run", *options, "--", sys.executable, *program], {}, folder)
    note("worlds", world.name, compared(world, expected, got))
