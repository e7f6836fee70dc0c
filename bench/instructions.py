"""Instructions of one call, by callgrind: the difference of two runs divided by the difference in
turns. Unlike times they do not vary from run to run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

# Turns of the two runs.
FEW, MANY = 10_000, 60_000
QUICK = ("empty loop", "two clock reads (dashcam::now_ns)", "dashcam span + attribute, on",
         "dashcam event + attribute, on", "dashcam span + attribute, off", "dashcam event + attribute, off")


def collected(binary: Path, out: Path, case: str, turns: int) -> int:
    """Instructions of the loop in a whole run."""
    # Only inside the loops: a tool's work before main, and threads of dashcam beside them, are no
    # part of a call.
    loops = [f"--toggle-collect=*dashcam_bench::{room}::*" for room in ("calls", "limits")]
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *loops, str(binary),
               "count", case, str(turns))
    env = {**os.environ, "BENCH_OUT": str(out)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found else 0


def count(binary: Path, out: Path, quick: bool) -> "dict[str, float]":
    """Case -> instructions for each call, beyond the empty loop; nothing without valgrind."""
    if not shutil.which("valgrind"):
        return {}
    listed = subprocess.run((str(binary), "count", "list"), capture_output=True, text=True, check=True)
    cases = [c for c in listed.stdout.splitlines() if not quick or c in QUICK]
    found = {}
    for case in cases:
        few, many = collected(binary, out, case, FEW), collected(binary, out, case, MANY)
        found[case] = (many - few) / (MANY - FEW)
    loop = found.pop("empty loop", 0.0)
    return {case: round(instructions - loop, 1) for case, instructions in found.items()}
