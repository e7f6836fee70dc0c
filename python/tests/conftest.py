"""Programs under test run in processes of their own: the tests see what a host would see.

Nothing here waits for ever: commands have a limit and are ended with everything they started
(tests/tools/limited.py), a wait names its condition, and a test that hangs is ended with its stack.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
import weakref
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tools"))
import limited  # noqa: E402

BIN = Path(sys.executable).parent
DASHCAM = str(BIN / "dashcam")
# Far longer than anything takes here, on a machine with ten times too much work.
PATIENCE_S = 90.0
# For each of a test's set-up, body and tear-down; `@pytest.mark.seconds(900)` sets another limit.
TEST_S = 400.0


class Bench:
    """A folder, and ways to run programs in it. Their black boxes are in a folder of the test's
    own: only the newest two boxes of a user's killed processes are kept."""

    # The processes that the current test has started.
    started: list[subprocess.Popen[str]] = []

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.boxes = Path(tempfile.mkdtemp(prefix="test-", dir="/dev/shm")) / f"dashcam-{os.getuid()}"
        weakref.finalize(self, shutil.rmtree, self.boxes.parent, True)
        self.running = Bench.started = []

    def write(self, name: str, code: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    def run(self, words: list[str], **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end."""
        return limited.run(words, PATIENCE_S, cwd=self.folder, env=self.environment(env),
                           capture_output=True, text=True)

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """The environment of the programs."""
        # Captures are judged only where a test is about that: a process more for each would load the machine.
        return {**os.environ, "DASHCAM_SHM": str(self.boxes.parent), "DASHCAM_EXPLAIN": "off", **env}

    def python(self, code: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs code that uses the package itself, warnings being errors."""
        path = self.write("program.py", code)
        return self.run([sys.executable, "-W", "error", str(path)], **env)

    def dashcam(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs the command."""
        return self.run([DASHCAM, *words], **env)

    def start(self, words: list[str], stdin: bool = False, **env: str) -> "subprocess.Popen[str]":
        """Starts a service, in a process group of its own; it is ended with the test."""
        process = subprocess.Popen(words, cwd=self.folder, env=self.environment(env), text=True,
                                   stdin=subprocess.PIPE if stdin else None,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        self.running.append(process)
        return process

    def stop(self, service: "subprocess.Popen[str]", sign: int = signal.SIGTERM) -> str:
        """Ends a service normally; returns its stderr."""
        service.send_signal(sign)
        return str(service.communicate(timeout=PATIENCE_S)[1])

    def show(self, path: Path | str) -> dict[str, Any]:
        """The contents of a capture."""
        result = self.dashcam("show", "--json", str(path))
        assert result.returncode == 0, result.stderr
        shown: dict[str, Any] = json.loads(result.stdout)
        return shown

    def captures(self, folder: str = "captures") -> list[Path]:
        """The captures in the folder, oldest first."""
        found = (self.folder / folder).glob("*.dashcam")
        return sorted(found, key=lambda p: p.stat().st_mtime)

    def wait_captures(self, seconds: float = PATIENCE_S) -> list[Path]:
        """As `captures`, once there is a capture; none if there is none in time."""
        with contextlib.suppress(Waited):
            wait_for("a capture", self.captures, seconds)
        return self.captures()

    def clear(self) -> None:
        """Ends everything that still runs: services with their groups, and other processes in the
        folder (the group of a service that was waited for may be another process's by now)."""
        for process in self.running:
            limited.end(process)
        for pid in standing_in(self.folder):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for process in self.running:
            limited.last_words(process)
        Bench.started = []


class Waited(AssertionError):
    """A wait was in vain; names its condition."""


def wait_for(what: str, found: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """The first true result."""
    end = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > end:
            raise Waited(f"waited {seconds:g} s in vain for {what}; found {answer!r}")
        time.sleep(0.03)
    return answer


def blames(verdict: str, cause: str, *words: str) -> bool:
    """Whether a finding of a verdict has this cause and all these words: the first finding, or, if
    there was no CPU for long, a finding after the consequences of that (a thread that did not
    start, for example)."""
    findings = [line for line in verdict.splitlines() if line[:1].isdigit() and line[1:3] == ". "]
    own = [line for line in findings if line[3:].startswith(f"{cause}: ")]
    return own != [] and (own[0] == findings[0] or on_a_busy_machine()) and all(w in own[0] for w in words)


def on_a_busy_machine() -> bool:
    """Whether some task waited for a CPU for a quarter of the last minute, by the kernel's
    figures.
    """
    try:
        first = Path("/proc/pressure/cpu").read_text("ascii").split()
        return float(dict(word.split("=") for word in first[1:5])["avg60"]) >= 25
    except (OSError, KeyError, ValueError):
        return False


def standing_in(folder: Path) -> list[int]:
    """Processes whose current directory is the folder or below."""
    found, inside = [], str(folder.resolve())
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            cwd = os.readlink(entry / "cwd").removesuffix(" (deleted)")
            if (cwd == inside or cwd.startswith(inside + "/")) and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def free_port() -> int:
    """A TCP port for a service that the test starts. It is the test's own until this process ends: the
    kernel gives no such number to a socket that asks for any, and no other process of tests takes
    one whose name here is taken."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    ports = list(range(min(10_000, lowest // 2), lowest))
    random.shuffle(ports)
    for port in ports:
        name = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as probe:
            name.bind(f"\0dashcam-test-port-{port}")
            # As servers do: connections of an earlier service that linger are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            name.detach()  # taken until this process ends
            return port
        name.close()
    raise AssertionError(f"found no free port below {lowest}")


def get(port: int, path: str = "/", seconds: float = PATIENCE_S) -> str:
    """Sends a request to a service, waiting until it has started; fails if the service has
    ended.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=seconds) as reply:
                return str(reply.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return str(error.code)
        except OSError:
            if time.monotonic() > end:
                raise
            if Bench.started and all(process.poll() is not None for process in Bench.started):
                said = [limited.last_words(process) for process in Bench.started]
                raise AssertionError(f"nothing answers at port {port}: what was started has ended: {said}") from None
            time.sleep(0.05)


@pytest.fixture(autouse=True, scope="session")
def _own_cache() -> Iterator[None]:
    """Tables of captures that an earlier run asked about, in folders of the same names, are not in the
    answers of this one."""
    with tempfile.TemporaryDirectory(prefix="test-cache-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        yield


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A folder of the test's own."""
    made = Bench(tmp_path)
    yield made
    made.clear()


@contextlib.contextmanager
def in_time(item: pytest.Item, part: str) -> Iterator[None]:
    """Raises in the main thread, at the place where the test hangs, when a part of a test takes too
    long; again and again, in case the handling of that error waits as well."""
    marker = item.get_closest_marker("seconds")
    seconds = float(marker.args[0]) if marker else TEST_S

    def late(*_: object) -> None:
        pytest.fail(f"{part} of {item.name} is not done after {seconds:g} s; it stands here")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 30)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Its fixtures."""
    with in_time(item, "the set-up"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The test."""
    with in_time(item, "the test"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What ends its fixtures."""
    with in_time(item, "the end"):
        yield
