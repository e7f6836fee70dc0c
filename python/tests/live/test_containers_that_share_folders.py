"""Processes of one number, in pid namespaces of their own that share the folders of boxes, captures
and sockets, as containers may: each is itself, from inside and from the host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Bench

WITHIN = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
SERVICE = """
    import dashcam, os, sys, time
    name = sys.argv[1]
    assert dashcam.start(service="billy", slow="10s", memory="8MiB", out="captures")
    with dashcam.request(f"GET /{name}"): pass
    print(os.getpid(), dashcam.status()["box"], flush=True)
    while True:
        with dashcam.request(f"GET /{name}"): time.sleep(0.02)
"""


def can_unshare() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*WITHIN, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_unshare(), reason="no pid namespace can be made here")


def child_of(pid: int) -> int:
    """The number outside of what a process has forked."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def names(shown: "dict[str, Any]") -> "set[str]":
    return {row["name"] for row in shown["requests"]}


def test_each_of_two_is_itself(bench: Bench) -> None:
    program = bench.write("service.py", SERVICE)
    folder = bench.folder / "run"
    folder.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(folder)}
    # A shell is the first process there, the service the second.
    words = [*WITHIN, "sh", "-c", '"$@"; :', "sh", sys.executable, str(program)]
    services = {name: bench.start([*words, name], **env) for name in ("one", "two")}
    inside, boxes = {}, {}
    for name, process in services.items():
        assert process.stdout is not None
        inside[name], boxes[name] = process.stdout.readline().split()
    assert set(inside.values()) == {"2"} and len(set(boxes.values())) == 2
    pids = {name: child_of(child_of(process.pid)) for name, process in services.items()}

    # The list has the host's numbers.
    rows = json.loads(bench.dashcam("ps", "--json", **env).stdout)["processes"]
    rows = {row["pid"]: row for row in rows if row["box"] in boxes.values()}
    assert {pid: (row["own_pid"], row["box"]) for pid, row in rows.items()} == {
        pids[name]: (2, boxes[name]) for name in services}

    # Each saves a capture, of itself; by the service both do.
    def snapped(*words: str) -> "list[set[str]]":
        result = bench.dashcam("snap", *words, **env)
        assert result.returncode == 0, result.stderr
        return [names(bench.show(bench.folder / path)) for path in result.stdout.split()]
    for name, pid in pids.items():
        assert snapped(str(pid)) == [{f"GET /{name}"}]
    assert sorted(map(sorted, snapped("billy"))) == [["GET /one"], ["GET /two"]]

    # What `dump` says comes from the process itself.
    for name, pid in pids.items():
        dumped = json.loads(bench.dashcam("dump", str(pid), "--json", **env).stdout)
        assert dumped["read"] == "inside" and f"GET /{name}" in json.dumps(dumped), dumped
    # On the host that is the number of another process, or of none.
    refused = bench.dashcam("snap", "2", **env)
    assert refused.returncode == 1 and "in its container this is the number of " in refused.stderr

    # The box of a killed one remains, and is its own; the other goes on.
    os.kill(pids["one"], signal.SIGKILL)
    services["one"].wait()
    listed = json.loads(bench.dashcam("recover", "--json", **env).stdout)["boxes"]
    runs = {row["box"]: row["runs"] for row in listed if row["box"] in boxes.values()}
    assert runs == {boxes["one"]: False, boxes["two"]: True}, listed
    recovered = bench.dashcam("recover", boxes["one"], "-o", "one.dashcam", **env)
    assert recovered.returncode == 0, recovered.stderr
    assert names(bench.show(bench.folder / "one.dashcam")) == {"GET /one"}
    assert snapped("billy") == [{"GET /two"}]
