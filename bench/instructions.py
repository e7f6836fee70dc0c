"""Instructions of one call, by callgrind: the difference of two runs divided by the difference in
turns. They do not wobble with the machine."""

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
    """Instructions of the loop of a whole run."""
    # Only inside the loops: what a rival does before main, or a thread of ours beside them, is no
    # part of a call.
    loops = [f"--toggle-collect=*dashcam_bench::{room}::*" for room in ("calls", "limits")]
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *loops, str(binary),
               "count", case, str(turns))
    env = {**os.environ, "BENCH_OUT": str(out)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found else 0


def count(binary: Path, out: Path, quick: bool) -> "dict[str, float]":
    """Case -> instructions a call, beyond the empty loop; nothing without valgrind."""
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
