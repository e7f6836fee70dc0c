"""The zoo's cases: where they lie, what they say, and how a program of one is run under load.

Two layouts: `<cause>/<shape>/` holds `sick.py` and its twin `healthy.py`, which differ in the
defect alone; `<name>/` holds one `program.py`, whose twin is `program.py healthy`. Both have a
`case.json`:

    cause       what the verdict must name; null: there is only a program that must not be blamed
    accept      other causes that are right too
    where       function, file and a part of the line that stood in the way; null: not judged
    culprit     the same for who caused it when that is another thread or caller; null: not judged
    *_also      further places that are right
    slow        the limit; seconds: how long the load lasts; load: connections, rate, paths
    server      the command, with {python} and {port}; min_slow: slow answers a valid run has
    settle      seconds from the open port to the first request: workers load after it opens
"""

from __future__ import annotations

import fnmatch
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
DEFAULTS: dict[str, Any] = {
    "where": None,
    "culprit": None,
    "where_also": [],
    "culprit_also": [],
    "accept": [],
    "seconds": 6,
    "settle": 0,
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
        """Whether there is a sick program, or only one that must not be blamed."""
        return self.spec["cause"] is not None

    def command(self, python: str, port: int, sick: bool) -> list[str]:
        """What to start, in the case's folder."""
        words = [w.format(python=python, port=port) for w in self.spec["server"]]
        if sick:
            return words
        if "program.py" in words:
            return [*words, "healthy"]
        return [re.sub(r"^sick(?=\.py$|:)", "healthy", word) for word in words]


def milliseconds(text: str) -> float:
    """`200ms` or `1.5s` as ms."""
    found = re.fullmatch(r"([0-9.]+)(ms|s)", text)
    if not found:
        raise ValueError(f"{text!r}: wanted a duration such as 200ms")
    return float(found[1]) * (1000 if found[2] == "s" else 1)


def find(glob: str = "*") -> list[Case]:
    """The cases whose name matches one of the globs (with commas), in order."""
    out = []
    for path in sorted([*HERE.glob("*/case.json"), *HERE.glob("*/*/case.json")]):
        name = path.parent.relative_to(HERE).as_posix()
        if any(fnmatch.fnmatch(name, one) for one in glob.split(",")):
            out.append(Case(name, path.parent, {**DEFAULTS, **json.loads(path.read_text("utf-8"))}))
    return out


def free_port() -> int:
    """A port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    command: list[str],
    case: Case,
    port: int,
    errors: "IO[str]",
    env: Optional[dict[str, str]] = None,
    user: Optional[str] = None,
) -> "subprocess.Popen[bytes]":
    """A service in a session of its own; its output goes to `errors`."""
    more: dict[str, Any] = (
        {"user": user, "group": user_group(user), "extra_groups": []} if user else {}
    )
    return subprocess.Popen(
        command,
        cwd=case.folder,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,
        env={**os.environ, "PORT": str(port), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        **more,
    )


def user_group(user: str) -> int:
    """The main group of a user."""
    import pwd

    return pwd.getpwnam(user).pw_gid


def load(
    case: Case, port: int, figures: Path, warmup: float = 0.0, seconds: Optional[float] = None
) -> dict[str, float]:
    """Loads a service from another process; its figures, {} when it did not answer."""
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
        str(figures),
    ]
    for path in how["paths"]:
        command += ["--path", path]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not figures.exists():
        return {}
    found: dict[str, float] = json.loads(figures.read_text("utf-8"))
    return found if found["requests"] else {}


def end(service: "subprocess.Popen[bytes]", hard: bool = False) -> bool:
    """SIGTERM unless `hard`, then SIGKILL to the whole group; whether SIGTERM was enough."""
    clean = not hard
    if not hard:
        service.send_signal(signal.SIGCONT)
        service.send_signal(signal.SIGTERM)
        try:
            service.wait(6)
        except subprocess.TimeoutExpired:
            clean = False
    try:
        os.killpg(service.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    service.wait()
    return clean


def tail(path: Path, chars: int = 600) -> str:
    """The end of a file, for a failure's note."""
    try:
        return path.read_text("utf-8", "replace").strip()[-chars:]
    except OSError:
        return ""


def settle(seconds: float) -> None:
    """Time for the last trigger's aftermath to be written."""
    time.sleep(seconds)
