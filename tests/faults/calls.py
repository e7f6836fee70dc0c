"""System calls of a process tree, one by one, and the line of dashcam that made each: a supervisor
by seccomp's user notification. No code of the package takes part, and calls of the program itself
are let through.

A filter hands the calls of one number over. For each, the caller is blocked; its stack is read, and
the first return address in a library other than the C library shows which library made the call. If
it is dashcam's, debug information names the lines; the innermost line in a file of dashcam is the
call's *site*.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import re
import select
import signal
import struct
import subprocess
import time
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

SECCOMP, PIDFD_OPEN, PIDFD_GETFD = 317, 434, 438
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, NEW_LISTENER = 1, 8
LOAD, EQUAL, GIVE = 0x20, 0x15, 0x06
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
RECEIVE, SEND, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
LET_THROUGH = 1
# Bytes of a stack that are searched: pthread_create is deep in it.
STACK = 6144

libc = ctypes.CDLL(None, use_errno=True)


class Unsupported(Exception):
    """This kernel or sandbox has no user notification."""


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def supported() -> None:
    """Raises `Unsupported` with the reason."""
    if platform.machine() != "x86_64":
        raise Unsupported("the filter and the walk are those of x86-64")
    size = ctypes.create_string_buffer(6)
    if libc.syscall(SECCOMP, 3, 0, size):
        raise Unsupported("seccomp with user notification: " + os.strerror(ctypes.get_errno()))


def hand_over(numbers: Sequence[int]) -> None:
    """In a child before it becomes the program: sends these calls to the listener."""
    code = [(LOAD, 0, 0, 0)]
    code += [(EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    code += [(GIVE, 0, 0, ALLOW), (GIVE, 0, 0, NOTIFY)]
    memory = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    program = Program(len(code), ctypes.addressof(memory))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        os._exit(120)
    listener = libc.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        os._exit(121)


@dataclass
class Call:
    """A call that a process is about to make."""

    id: int
    tid: int
    number: int
    args: "tuple[int, ...]"


@dataclass
class Maps:
    """The mappings of a process."""

    rows: "list[tuple[int, int, int, str]]" = field(default_factory=list)

    @staticmethod
    def of(tid: int) -> "Maps":
        maps, first = Maps(), {}
        with open(f"/proc/{tid}/maps", encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if len(words) < 6:
                    continue
                begin, end = (int(part, 16) for part in words[0].split("-"))
                # The load address of a library.
                base = first.setdefault(words[5], begin)
                if "x" in words[1]:
                    maps.rows.append((begin, end, base, words[5]))
        return maps

    def find(self, address: int) -> "Optional[tuple[int, str]]":
        for begin, end, base, path in self.rows:
            if begin <= address < end:
                return address - base, path
        return None


class Lines:
    """File and line of addresses in dashcam's library, by addr2line; each is resolved once."""

    def __init__(self) -> None:
        self.tools: "dict[str, subprocess.Popen[str]]" = {}
        self.known: "dict[tuple[str, int], list[str]]" = {}

    def at(self, path: str, offset: int) -> "list[str]":
        """Innermost first: `room/src/file.rs:12`; only lines of dashcam."""
        key = (path, offset)
        if key not in self.known:
            self.known[key] = self.ask(path, offset)
        return self.known[key]

    def ask(self, path: str, offset: int) -> "list[str]":
        tool = self.tools.get(path)
        if tool is None:
            tool = subprocess.Popen(["addr2line", "-a", "-i", "-e", path], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.tools[path] = tool
        assert tool.stdin and tool.stdout
        # The second address ends the answer.
        tool.stdin.write(f"{offset:#x}\n0x1\n")
        tool.stdin.flush()
        said = []
        for line in iter(tool.stdout.readline, ""):
            if line.startswith("0x") and int(line, 16) == 1:
                tool.stdout.readline()
                break
            said.append(line.strip())
        found = (re.search(r"(?:crates|python)/(\S+?/?src/\S+?:\d+)", line) for line in said[1:])
        return [match.group(1) for match in found if match]

    def close(self) -> None:
        for tool in self.tools.values():
            tool.kill()
            tool.communicate()


LINES = Lines()


class Caller:
    """The library that made the call."""

    def __init__(self, ours: str) -> None:
        self.ours = re.compile(ours)
        self.maps: "dict[int, Maps]" = {}

    def site(self, call: Call) -> Optional[str]:
        """The lines of dashcam that made it; None: the program made it."""
        try:
            with open(f"/proc/{call.tid}/syscall", encoding="utf-8") as file:
                words = file.read().split()
            sp = int(words[-2], 16)
            with open(f"/proc/{call.tid}/mem", "rb", buffering=0) as memory:
                stack = os.pread(memory.fileno(), STACK, sp)
                return self.walk(call, stack, lambda at: os.pread(memory.fileno(), 8, at))
        except (OSError, ValueError, IndexError):
            return None

    def walk(self, call: Call, stack: bytes, read: Callable[[int], bytes]) -> Optional[str]:
        words = struct.unpack(f"<{len(stack) // 8}Q", stack[:len(stack) // 8 * 8])
        maps = self.maps.get(call.tid) or self.learn(call.tid)
        begun = False
        for word in words:
            found = maps.find(word)
            if found is None or not is_behind_a_call(read(word - 8)):
                continue
            offset, path = found
            if re.search(r"/(libc|ld-linux|libpthread)[-.]", path):
                continue
            if not self.ours.search(path):
                break
            begun = True
            # The standard library's lines are not dashcam's, nor are calls without lines.
            for line in LINES.at(path, offset - 1):
                return line
        return "?" if begun else None

    def learn(self, tid: int) -> Maps:
        maps = Maps.of(tid)
        if any(self.ours.search(path) for *_, path in maps.rows):
            # Its address does not change once it is loaded.
            self.maps[tid] = maps
        return maps


def is_behind_a_call(code: bytes) -> bool:
    """Whether the bytes in front of an address end with a call instruction."""
    return len(code) == 8 and (
        code[3] == 0xE8
        or code[2:4] == b"\xff\x15"
        or any(code[-n] == 0xFF and code[-n + 1] & 0x38 == 0x10 for n in (2, 3, 4, 6, 7))
    )


@dataclass
class Outcome:
    """How a program ended under supervision."""

    code: int
    out: str
    err: str
    late: bool


def run(
    words: Sequence[str],
    numbers: Sequence[int],
    answer: "Callable[[Call], int]",
    seconds: float,
    **options: object,
) -> Outcome:
    """Runs a command. `answer` gives for each call with one of `numbers` the errno it fails with;
    0: it is let through.
    """
    go_read, go_write = os.pipe()

    def prepare() -> None:
        hand_over(numbers)
        os.close(go_write)
        os.read(go_read, 1)

    out = open_temporary()
    err = open_temporary()
    # The events that `Popen` waits for come only while calls are served: on a thread of its own.
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.dup2(out, 1)
            os.dup2(err, 2)
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.environ.update(options.get("env", {}))  # type: ignore[call-overload]
            os.chdir(str(options.get("cwd", ".")))
            prepare()
            os.execvp(words[0], list(words))
        finally:
            os._exit(122)
    os.close(go_read)
    listener = listener_of(pid)
    os.write(go_write, b"x")
    os.close(go_write)
    late = serve(listener, pid, answer, time.monotonic() + seconds)
    if late:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os.close(listener)
    status = os.waitpid(pid, 0)[1]
    return Outcome(os.waitstatus_to_exitcode(status), text(out), text(err), late)


def open_temporary() -> int:
    return os.memfd_create("said", 0)


def text(fd: int) -> str:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def listener_of(pid: int) -> int:
    pidfd = libc.syscall(PIDFD_OPEN, pid, 0)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if "seccomp" not in os.readlink(f"/proc/{pid}/fd/{number}"):
                        continue
                    got = libc.syscall(PIDFD_GETFD, pidfd, int(number), 0)
                    if got >= 0:
                        os.set_inheritable(got, False)
                        return int(got)
            time.sleep(0.001)
    finally:
        os.close(pidfd)
    raise Unsupported("no listener came up: the filter was refused")


def serve(listener: int, pid: int, answer: "Callable[[Call], int]", until: float) -> bool:
    """Waits until the whole tree has ended (True), or the time is over."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return True
        for _, events in poll.poll(min(left, 1.0) * 1000):
            if events & select.POLLHUP:
                return False
            if events & select.POLLIN:
                one(listener, answer)
        if ended(pid):
            return False


def ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def one(listener: int, answer: "Callable[[Call], int]") -> None:
    notice = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, notice)
    except OSError:
        # The caller was killed meanwhile.
        return
    id, tid, _, number, _, _, *args = struct.unpack("<QIIiIQ6Q", notice)
    errno = answer(Call(id, tid, number, tuple(args)))
    flags = 0 if errno else LET_THROUGH
    reply = bytearray(struct.pack("<QqiI", id, 0, -errno, flags))
    try:
        fcntl.ioctl(listener, SEND, reply)
    except OSError:
        pass
