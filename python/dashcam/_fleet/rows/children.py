"""Captures are judged in processes of their own, with limits: a file may be damaged or hostile.

How it works: each worker thread has one child (`child`), which judges one file after another. The
child limits its own memory; the thread waits for an answer until a deadline and kills a child that
has none. A file that its child did not survive is refused, and the next file gets a new child.

What it promises: every file gives rows or one row of `refused`, in the order of the files, however
many children there are. A file never ends the job. Children end with it.

What is missing on purpose: a sandbox. The reader is memory-safe Rust; the limits are for time and
memory.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pyarrow as pa

from dashcam._fleet.rows import judging

# CPU time for one file. The slowest of 140 captures of services took 0.5 s.
SECONDS_MAX = 60.0
# A file may take so many times its CPU time, where a machine has other work or a slow disk. What is
# refused should depend on the file.
CROWDING_MAX = 10
# A process that waits with little of its time left is asked no more often.
LEAST_S = 0.1
# Address space of a child. A capture costs up to seven times its size, 64 MiB at most; the
# libraries that are loaded reserve about 1 GiB.
MEMORY_BYTES_MAX = 4 << 30
# Children at once; more are asked for explicitly.
JOBS_MAX = 4
# CPU time in which a child has loaded its libraries.
START_SECONDS_MAX = 120.0
# The current folder is not searched for modules; this package's folder is.
CODE = """\
import sys
sys.path = [p for p in sys.path if p] + sys.argv[2:]
from dashcam._fleet.rows import child
sys.exit(child.main())"""
# An answer's first line, and the streams behind it.
HEAD_BYTES_MAX = 1 << 16


class Limits(NamedTuple):
    """What a file may cost."""

    bytes_max: int = judging.FILE_BYTES_MAX
    seconds: float = SECONDS_MAX
    """Of CPU time; on the clock `CROWDING_MAX` times as much."""
    memory: int = MEMORY_BYTES_MAX


class ChildError(OSError):
    """No process to judge captures can be started on this machine."""


class File(NamedTuple):
    """A file to judge, and its name in the rows."""

    path: Path
    uri: str
    bytes: int


class Judged(NamedTuple):
    """What became of a file: rows by table. Refused files have rows in `refused` only."""

    file: File
    rows: judging.Rows


def judge(
    files: Iterable[File], *, jobs: int | None = None, limits: Limits | None = None, native_names: bool = False
) -> Iterator[Judged]:
    """Judges the files; the results come in the order of the files."""
    listed = list(files)
    jobs = at_once(jobs, len(listed))
    pool = Children(jobs, limits or Limits(), native_names)
    with pool, ThreadPoolExecutor(jobs) as threads:
        try:
            yield from threads.map(pool.one, listed)
        finally:
            threads.shutdown(cancel_futures=True)


def at_once(jobs: int | None, files: int) -> int:
    """How many children read so many files; `jobs` are wanted."""
    return max(1, min(jobs or min(JOBS_MAX, os.cpu_count() or 1), files))


class Children(AbstractContextManager["Children"]):
    """As many children as there are threads; a thread takes any that is free."""

    def __init__(self, jobs: int, limits: Limits, native_names: bool) -> None:
        self.limits = limits
        self.native_names = native_names
        self.free: SimpleQueue[Child | None] = SimpleQueue()
        for _ in range(jobs):
            self.free.put(None)

    def one(self, file: File) -> Judged:
        """Judges a file."""
        try:
            with self.any() as child:
                return Judged(file, child.ask(file, self.limits, self.native_names))
        except judging.Refused as refused:
            return Judged(file, {"refused": judging.refusal(file.uri, file.bytes, str(refused))})

    @contextmanager
    def any(self) -> Iterator[Child]:
        """The next free child."""
        child = self.free.get() or Child(self.limits.memory)
        try:
            yield child
        finally:
            self.free.put(child if child.is_alive() else None)

    def __exit__(self, *exc: object) -> None:
        while not self.free.empty():
            if child := self.free.get():
                child.end()


class Deadline:
    """When a process has had its time for a file."""

    def __init__(self, used: Callable[[], float], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.used, self.clock = used, clock
        self.until = used() + seconds, clock() + CROWDING_MAX * seconds

    def left_s(self) -> float:
        """For so long it need not be asked again; 0: it is over."""
        left = min(self.until[0] - self.used(), self.until[1] - self.clock())
        return max(LEAST_S, left) if left > 0 else 0.0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Child:
    """A process that judges files."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        command = [sys.executable, "-c", CODE, str(memory), str(Path(__file__).resolve().parents[3])]
        # The child is no service of its own: it must not record itself.
        environment = os.environ | {"DASHCAM_ENABLED": "0", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.pending = b""
        try:
            self._head(self._deadline(START_SECONDS_MAX))
        except (TimeoutError, EOFError):
            self.end()
            raise ChildError(f"a process that judges captures did not start: {sys.executable}") from None

    def is_alive(self) -> bool:
        """Whether it can judge another file."""
        return self.process.returncode is None

    def ask(self, file: File, limits: Limits, native_names: bool) -> judging.Rows:
        """The rows of a file. Raises Refused; the child has ended then, unless it refused the file
        itself."""
        return self.answered(file, limits, {"native_names": native_names})[1]

    def answered(self, file: File, limits: Limits, words: dict[str, Any]) -> tuple[dict[str, Any], judging.Rows]:
        """The answer to a request about a file, and the rows with it. Raises Refused, as `ask`."""
        request = {"path": str(file.path), "uri": file.uri, "bytes_max": limits.bytes_max, **words}
        deadline = self._deadline(limits.seconds)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            head = self._head(deadline)
            if "refused" in head:
                raise judging.Refused(head["refused"])
            return head, {name: self._table(size, deadline) for name, size in head.get("tables", {}).items()}
        except TimeoutError:
            self.end()
            raise judging.Refused(f"was not read in {limits.seconds:g} s of CPU time") from None
        except (EOFError, OSError):
            self.end()
            raise judging.Refused(self._how_it_ended()) from None

    def end(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline(lambda: cpu_seconds(self.process.pid), seconds)

    def _how_it_ended(self) -> str:
        code = self.process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"ended the process that read it ({how}; memory is limited to {self.memory >> 20} MiB)"

    def _head(self, deadline: Deadline) -> dict[str, Any]:
        while b"\n" not in self.pending:
            if len(self.pending) > HEAD_BYTES_MAX:
                raise EOFError
            self.pending += self._read(deadline)
        line, _, self.pending = self.pending.partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        return head

    def _table(self, size: int, deadline: Deadline) -> pa.Table:
        parts = [self.pending]
        known = len(self.pending)
        while known < size:
            parts.append(self._read(deadline))
            known += len(parts[-1])
        whole = b"".join(parts)
        stream, self.pending = whole[:size], whole[size:]
        return pa.ipc.open_stream(stream).read_all()

    def _read(self, deadline: Deadline) -> bytes:
        """What the child has written next. Raises TimeoutError, EOFError."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while not ready.select(left := deadline.left_s()):
                if not left:
                    raise TimeoutError
        part = os.read(self.process.stdout.fileno(), 1 << 20)
        if not part:
            # Its exit status is there when its end of the pipe is gone, or soon after.
            self.process.wait()
            raise EOFError
        return part
