#!/usr/bin/env python3
"""Checks that a server's clients, its application and its log see no difference under `dashcam
run`.

How it works: each service of `servers.py` (a server, or a program that ends by itself) is started
twice, bare and recorded, and gets the same requests, one exchange after the other. Compared are the
bytes on the wire, what the application recorded of each exchange (`applications/noting.py`: its
arguments, its callers, the order, exceptions, the number of threads), stderr (as a set of lines:
threads write it), and the exit code.

What it promises: an exchange that differs is a failure, and so is a service that cannot be run at
all; services whose packages are not installed are named. A difference is shown as both sides.

Missing on purpose: times. `run.py [SERVICE ...]` takes parts of names; `--list` counts the
exchanges.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools")]
import limited  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

# Time for a server to end, on a busy machine.
END_S = 30.0
# Time for a program to run.
PROGRAM_S = 120.0
SHOWN = 700


class Seen(NamedTuple):
    """The results of one run."""

    wire: dict[str, bytes]
    notes: dict[str, list[str]]
    log: "collections.Counter[str]"
    code: Any


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(service: servers.Service, port: int, recorded: bool, folder: Path) -> list[str]:
    words = [word.format(port=port) for word in service.words]
    dashcam = [str(Path(sys.executable).with_name("dashcam")), "run", "--out", str(folder / "captures"), "--slow", "60s", "--"]
    return [*(dashcam if recorded else []), sys.executable, *words]


def _notes(path: Path) -> dict[str, list[str]]:
    notes: dict[str, list[str]] = collections.defaultdict(list)
    for line in path.read_bytes().splitlines() if path.exists() else []:
        case, *said = json.loads(line)
        notes[case].append(wire.steady(" | ".join(said).encode()).decode())
    return notes


def _records(group: int) -> bool:
    """Whether a process of this group has threads of the recorder."""
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith("dashcam-") and os.getpgid(int(task.parts[2])) == group:
                return True
    return False


def seen(service: servers.Service, recorded: bool) -> Seen:
    """Runs a service and makes all its exchanges."""
    with tempfile.TemporaryDirectory(prefix="conformance") as name:
        folder, port = Path(name), free_port()
        notes = folder / "notes"
        # When an unclosed file is noticed depends on when garbage is collected.
        env = {**os.environ, "CONFORMANCE_NOTES": str(notes), "PYTHONHASHSEED": "0",
               "PYTHONWARNINGS": "always,ignore::ResourceWarning",
               "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(servers.APPLICATIONS)}
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(_command(service, port, recorded, folder), cwd=servers.APPLICATIONS, env=env,
                                       stdout=log, stderr=log, start_new_session=True)
        try:
            on_wire = {}
            if service.exchanges:
                if not wire.answers(port, lambda: process.poll() is None):
                    raise RuntimeError(f"it does not listen: {(folder / 'log').read_text('utf-8', 'replace')[-2000:]}")
                on_wire = {case: exchange(port, case) for case, exchange in service.exchanges.items()}
                wire.quiet(str(notes))
                if recorded and not _records(process.pid):
                    raise RuntimeError("it does not record: no process of it has a thread of dashcam's")
                process.terminate()
            try:
                code: Any = process.wait(END_S if service.exchanges else PROGRAM_S)
            except subprocess.TimeoutExpired:
                code = "does not end"
        finally:
            limited.end(process)
            process.wait()
        lines = wire.steady((folder / "log").read_bytes()).decode("utf-8", "replace").splitlines()
        return Seen(on_wire, _notes(notes), collections.Counter(lines), code)


def _shown(what: str, bare: Any, recorded: Any) -> str:
    def cut(side: Any) -> str:
        said = side.decode("utf-8", "replace") if isinstance(side, bytes) else str(side)
        return said if len(said) <= SHOWN else f"{said[:SHOWN]}... ({len(said)} characters)"

    return f"  {what}\n    bare:     {cut(bare)}\n    recorded: {cut(recorded)}"


def differences(service: servers.Service, bare: Seen, recorded: Seen) -> dict[str, list[str]]:
    """The differences of each exchange, and of the whole ("")."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for case in service.exchanges:
        if bare.wire[case] != recorded.wire[case]:
            found[case].append(_shown("on the wire", bare.wire[case], recorded.wire[case]))
    for case in dict.fromkeys([*bare.notes, *recorded.notes]):
        of = next((name for name in (case, case.rpartition(" (")[0]) if name in service.exchanges), "")
        ours, theirs = recorded.notes.get(case, []), bare.notes.get(case, [])
        for at in range(max(len(ours), len(theirs))):
            one, other = (side[at] if at < len(side) else "<nothing>" for side in (theirs, ours))
            if one != other:
                found[of].append(_shown(f"note {at}", *_where(one, other)))
                break
    lines = [f"-{line}" for line in (bare.log - recorded.log).elements()]
    lines += [f"+{line}" for line in (recorded.log - bare.log).elements()]
    if lines:
        found[""].append("  in its log\n    " + "\n    ".join(lines[:20]))
    if bare.code != recorded.code:
        found[""].append(_shown("exit code", bare.code, recorded.code))
    return found


def _where(one: str, other: str) -> tuple[str, str]:
    """Both sides, from shortly before their first difference."""
    at = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), 0)
    return one[max(0, at - 150):], other[max(0, at - 150):]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of services; without any, all")
    parser.add_argument("--list", action="store_true", help="count the exchanges and end")
    given = parser.parse_args()
    chosen = {name: service for name, service in servers.services().items()
              if not given.names or any(part in name for part in given.names)}
    if given.list:
        for name, service in chosen.items():
            print(f"{name:26} {len(service.exchanges) or 1:4} exchanges")
        print(f"{'all':26} {sum(len(service.exchanges) or 1 for service in chosen.values()):4} exchanges")
        return 0
    failed = total = differing = 0
    for name, service in chosen.items():
        missing = [module for module in service.needs if importlib.util.find_spec(module) is None]
        if missing:
            print(f"{name:24} not run: {', '.join(missing)} is not installed", flush=True)
            continue
        noted = 0
        try:
            bare = seen(service, recorded=False)
            noted = sum(map(len, bare.notes.values()))
            if not noted:
                raise RuntimeError("the application has noted nothing")
            found = differences(service, bare, seen(service, recorded=True))
        except (RuntimeError, OSError) as error:
            found = {"": [f"  not run to its end: {error}"]}
        total += len(service.exchanges) or 1
        differing += len([case for case in found if case or not service.exchanges])
        failed += bool(found)
        print(f"{name:26} {len(service.exchanges) or 1:4} exchanges, {noted:5} notes, {len(found):3} differ", flush=True)
        for case, said in found.items():
            print(f" {case or 'the whole'}:", *said, sep="\n", flush=True)
    print(f"conformance: {len(chosen)} services, {total} exchanges, {differing} differ; {failed} services failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
