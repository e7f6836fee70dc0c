"""For the tests of dashcam.compat: the same program through the real client and through ours, and
what a StatsD server makes of the lines."""

from __future__ import annotations

import inspect
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import limited
from conftest import PATIENCE_S
from test_metrics_reach_a_statsd_server import Server


# Before each program: `pace()` waits while much data lies unread in the server's socket, since UDP
# drops what has no room there.
PACE = """
import sys, time

def pace():
    while True:
        with open("/proc/net/udp") as sockets:
            rows = [row.split() for row in sockets.read().splitlines()[1:]]
        waiting = [int(row[4].split(":")[1], 16) for row in rows
                   if int(row[1].split(":")[1], 16) == int(sys.argv[2])]
        if sum(waiting) < 20_000:
            return
        time.sleep(0.001)
"""


def run(tmp_path: Path, program: str, real: bool, **env: str) -> "tuple[dict[str, Any], str]":
    """Runs the program (`sys.argv[1]`: real or ours, `[2]`: the port); returns what arrived, and
    stderr.
    """
    server = Server()
    path = tmp_path / "program.py"
    path.write_text(PACE + program, encoding="utf-8")
    door = "real" if real else "ours"
    env = {**os.environ, "DASHCAM_OUT": str(tmp_path / "captures"),
           "DASHCAM_STATSD_SELF": "off", "DD_ORIGIN_DETECTION_ENABLED": "false", **env}
    if not real:
        env.setdefault("DASHCAM_STATSD", f"udp://127.0.0.1:{server.port}")
    try:
        done = limited.run([sys.executable, "-W", "error", str(path), door, str(server.port)],
                           PATIENCE_S, env=env, capture_output=True, text=True)
    finally:
        lines = server.end()
    assert done.returncode == 0, done.stderr
    return sums(lines), done.stderr


def sums(lines: "list[str]") -> "dict[str, Any]":
    """'name|type|tags' -> the sum of counters, the last of gauges, values in order, members."""
    found: "dict[str, Any]" = {}
    values: "dict[str, list[Any]]" = defaultdict(list)
    for line in lines:
        if line.startswith(("_e{", "_sc|")):
            found.setdefault("marks", []).append(line)
            continue
        head, *fields = line.split("|")
        name, *said = head.split(":")
        rate = next((float(f[1:]) for f in fields if f[0] == "@"), 1.0)
        tags = next((",".join(sorted(f[1:].split(","))) for f in fields if f[0] == "#"), "")
        key = "|".join([name, fields[0], tags])
        if fields[0] == "c":
            found[key] = found.get(key, 0) + sum(float(v) for v in said) / rate
        elif fields[0] == "g":
            base = found.get(key, 0.0) if said[0][0] == "+" or (said[0][0] == "-" and key in found) else 0
            found[key] = base + float(said[0])
        elif fields[0] == "s":
            values[key] += said
        else:
            values[key] += [round(float(v), 6) for v in said]
    for key, list_ in values.items():
        found[key] = sorted(set(list_)) if "|s|" in key else sorted(list_)
    return found


def names(module: object) -> "set[str]":
    """Public names of a module that are not modules themselves."""
    return {n for n, value in vars(module).items() if n[0] != "_" and not inspect.ismodule(value)}


def misses(ours: type, real: type, passed: "tuple[str, ...]" = ()) -> "list[str]":
    """Public names that ours lacks, and parameters that differ in name, kind or default."""
    wrong = []
    for name in ["__init__", *(n for n in dir(real) if n[0] != "_")]:
        if name in passed:
            continue
        if not hasattr(ours, name):
            wrong.append(f"{name} is missing")
            continue
        theirs = getattr(real, name)
        if callable(theirs):
            wanted, found = (
                [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
                for f in (theirs, getattr(ours, name)))
            if wanted != found:
                wrong.append(f"{name}: found {found}, wanted {wanted}")
    return wrong
