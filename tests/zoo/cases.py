"""The zoo's cases: their files, their fields, and how a case's program is run under load.

Two layouts: `<cause>/<shape>/` holds `sick.py` and its twin `healthy.py`, which differ in the
defect alone; `<name>/` holds one `program.py` (or `program.c`), whose twin is `program.py healthy`.
Both have a `case.json`:

    cause       what the verdict must name; null: there is only a program that must not be blamed
    accept      other causes that are right too
    where       function, file and a part of the line that delays the request; null: not judged
    culprit     the same for the culprit, if that is another thread or caller; null: not judged
    culprit_by_switches  true: only switch records show the culprit; without them a verdict without
                a culprit is right, too
    *_also      further places that are right
    then        cause and place of a second defect that costs less: must come next
    settings    of dashcam (docs/settings.md), where the defaults do not show the defect
    slow        the limit; seconds: how long the load lasts; load: connections, rate, paths
    server      the command, with {python}, {port} and {built} (what program.c was built into)
    min_slow    slow answers a valid run has
    needs       what not every machine has; where it is missing the case is left out and reported:
                "cgroup": a writable cpu controller; "mount": a mount namespace (root), in which the
                program runs with an /etc/resolv.conf that names service.NAMESERVER; "libdashcam":
                the C library, for a program in C (native.py)
    ready       true: the program reports when its workers have started (service.ready)
    settle      seconds from the open port to the first request: workers load after it opens
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

HERE = Path(__file__).resolve().parent
LOAD = HERE.parent / "tools" / "load.py"
sys.path.insert(0, str(LOAD.parent))
import limited as limited  # noqa: E402

import native  # noqa: E402

# Time until a program's workers have started; after it, requests are sent in any case.
READY_S = 60
# Time that a load may take beyond its own: an answer is waited for 30 s.
LOAD_MORE_S = 90
# Time until a killed process is gone: pages are given back, a disk is waited for.
GONE_S = 60
RESOLVER = "/etc/resolv.conf"
# The first word is the file that is mounted over RESOLVER, the others are the command.
_OVER = f'mount --bind "$1" {RESOLVER} && shift && exec "$@"'
MOUNTED = ["unshare", "--mount", "sh", "-c", _OVER, "zoo"]
DEFAULTS: dict[str, Any] = {
    "where": None,
    "culprit": None,
    "culprit_by_switches": False,
    "where_also": [],
    "culprit_also": [],
    "accept": [],
    "then": None,
    "settings": {},
    "seconds": 6,
    "ready": False,
    "settle": 0,
    "needs": None,
    "server": ["{python}", "program.py"],
    "min_slow": 1,
    "load": {"connections": 4, "rate": 60, "paths": ["/"]},
}


@dataclass(frozen=True)
class Case:
    """One sick program and its twin."""

    name: str
    folder: Path
    spec: dict[str, Any]

    @property
    def slow_ms(self) -> float:
        """The limit in ms."""
        return milliseconds(self.spec["slow"])

    @property
    def has_sick(self) -> bool:
        """Whether there is a sick program, or only a program that must not be blamed."""
        return self.spec["cause"] is not None

    @property
    def is_native(self) -> bool:
        """Whether it is a program in C, which starts dashcam itself."""
        return (self.folder / "program.c").exists()

    def command(self, python: str, port: int, sick: bool, recorded: bool = True) -> list[str]:
        """The command to start, in the case's folder; a program in C is built first."""
        built = native.build(self.folder / "program.c", recorded) if self.is_native else ""
        words = [w.format(python=python, port=port, built=built) for w in self.spec["server"]]
        if sick:
            return words
        if not (self.folder / "healthy.py").exists():
            return [*words, "healthy"]
        return [re.sub(r"^sick(?=\.py$|:)", "healthy", word) for word in words]


def milliseconds(text: str) -> float:
    """`200ms` or `1.5s` as ms."""
    found = re.fullmatch(r"([0-9.]+)(ms|s)", text)
    if not found:
        raise ValueError(f"{text!r}: wanted a duration such as 200ms")
    return float(found[1]) * (1000 if found[2] == "s" else 1)


def find(glob: str = "*", generated: Optional[Path] = None) -> list[Case]:
    """The cases whose name matches one of the globs (with commas), in order; with a folder, those
    that generate.py made there: their answers lie apart from their programs."""
    if generated:
        answers = sorted((generated / "answers").glob("*.json"))
        found = [(path.stem, generated / "programs" / path.stem, path) for path in answers]
    else:
        answers = sorted([*HERE.glob("*/case.json"), *HERE.glob("*/*/case.json")])
        found = [(p.parent.relative_to(HERE).as_posix(), p.parent, p) for p in answers]
    return [
        Case(name, folder, {**DEFAULTS, **json.loads(path.read_text("utf-8"))})
        for name, folder, path in found
        if any(fnmatch.fnmatch(name, one) for one in glob.split(","))
    ]


def lacks(case: Case, recorded: bool) -> str:
    """What a case needs and the machine lacks, "" if nothing; more is needed if it is to be
    recorded.
    """
    if case.is_native:
        return native.lacks(recorded)
    known = {"cgroup": lacks_cgroup, "mount": lacks_mount}
    return known[case.spec["needs"]]() if case.spec["needs"] else ""


def possible(chosen: list[Case], recorded: bool = True) -> list[Case]:
    """The cases without those that lack something, which are reported."""
    lacking = [(case, lacks(case, recorded)) for case in chosen]
    for case, what in lacking:
        if what:
            print(f"left out {case.name:21} it needs {case.spec['needs']}: {what}", flush=True)
    return [case for case, what in lacking if not what]


@functools.lru_cache(None)
def lacks_cgroup() -> str:
    """The reason why a program cannot be put into a cpu cgroup."""
    root = Path("/sys/fs/cgroup")
    second = (root / "cgroup.controllers").exists()
    group = root if second else root / "cpu"
    allowed = os.geteuid() == 0 and os.access(group, os.W_OK)
    if not allowed or not group.exists():
        return f"{group} is not to be written"
    given = root / "cgroup.subtree_control"
    if second and "cpu" not in given.read_text("ascii").split():
        return f"{given} does not hold cpu"
    return ""


@functools.lru_cache(None)
def lacks_mount() -> str:
    """The reason why a program cannot have an /etc/resolv.conf and port 53 of an address of its
    own.
    """
    if not os.path.exists(RESOLVER):
        return f"there is no {RESOLVER}"
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.53.0.1", 53))
        except OSError as error:
            return f"port 53 of 127.53.0.1: {error}"
    try:
        tried = limited.run([*MOUNTED, "/etc/hosts", "true"], 20, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


def enclosed(command: list[str], case: Case, port: int, folder: Path) -> list[str]:
    """A command with what it needs around it."""
    if case.spec["needs"] != "mount":
        return command
    own = folder / "resolv.conf"
    address = f"127.53.{port >> 8}.{port & 255}"
    own.write_text(f"nameserver {address}\noptions timeout:1 attempts:3\n", "ascii")
    return [*MOUNTED, str(own), *command]


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    command: list[str],
    case: Case,
    port: int,
    errors: "IO[str]",
    env: Optional[dict[str, str]] = None,
) -> "subprocess.Popen[bytes]":
    """A service in a session of its own; its output goes to `errors`, and the processes that it
    needs run beside it.
    """
    return subprocess.Popen(
        enclosed(command, case, port, Path(errors.name).parent),
        cwd=case.folder,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,
        env={**os.environ, "PORT": str(port), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
    )


def load(
    case: Case,
    port: int,
    target: Path,
    warmup: float = 0.0,
    seconds: Optional[float] = None,
    enough: Optional[Path] = None,
    ready: Optional[Path] = None,
) -> dict[str, float]:
    """Loads a service from another process; returns its figures, {} if it did not answer. With
    `enough` it ends once a capture is in that folder and as many answers were slow as a valid run
    has. It begins when the file `ready` exists, if the program writes one."""
    limit = time.monotonic() + READY_S
    while ready and case.spec["ready"] and not ready.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    how = case.spec["load"]
    command = [
        sys.executable,
        str(LOAD),
        f"http://127.0.0.1:{port}/",
        "--wait-ready",
        "40",
        "--connections",
        str(how["connections"]),
        "--rate",
        str(how["rate"]),
        "--seconds",
        str(seconds or case.spec["seconds"]),
        "--settle",
        str(case.spec["settle"]),
        "--warmup",
        str(warmup),
        "--slow-ms",
        str(case.slow_ms),
        "--json",
        str(target),
    ]
    for path in how["paths"]:
        command += ["--path", path]
    if enough:
        found = str(enough / "*.dashcam")
        command += ["--enough", found, "--enough-slow", str(case.spec["min_slow"])]
    most = 40 + case.spec["settle"] + warmup + (seconds or case.spec["seconds"]) + LOAD_MORE_S
    limited.run(command, most, stdout=subprocess.DEVNULL)
    return figures(target)


def figures(path: Path) -> dict[str, float]:
    """The load generator's output, {} if nothing was answered."""
    if not path.exists():
        return {}
    found: dict[str, float] = json.loads(path.read_text("utf-8"))
    return found if found["requests"] else {}


def end(service: "subprocess.Popen[bytes]", hard: bool = False) -> bool:
    """SIGTERM unless `hard`, then SIGKILL to the whole group; returns whether SIGTERM was
    enough.
    """
    clean = not hard
    if not hard:
        service.send_signal(signal.SIGCONT)
        service.send_signal(signal.SIGTERM)
        clean = limited.ended(service, 6)
    limited.end(service)
    service.wait(GONE_S)
    return clean


def tail(path: Path, chars: int = 600) -> str:
    """The end of a file, for the note about a failure."""
    try:
        return path.read_text("utf-8", "replace").strip()[-chars:]
    except OSError:
        return ""


def captured(folder: Path, seconds: float) -> bool:
    """Waits for a capture in a folder: the time after its trigger is recorded first."""
    end = time.monotonic() + seconds
    while not any(folder.glob("*.dashcam")):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
