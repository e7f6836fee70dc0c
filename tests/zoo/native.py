"""Builds the zoo's programs in C: with libdashcam for run.py, without it for check_cases.py.

The binary remains in target/zoo, under a name derived from its sources and the library: `dashcam
why` opens the binary again, also later (run.py --again).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = "-std=gnu11 -g -O1 -Wall -Wextra -pthread".split()
# The name that programs search for (c/build.rs).
SONAME = "libdashcam.so.0"
BUILD_S = 120


def library() -> Optional[Path]:
    """The newest C library that cargo built, if any."""
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    found = [target / profile / "libdashcam_c.so" for profile in ("release", "debug")]
    return max((path for path in found if path.exists()), key=lambda p: p.stat().st_mtime, default=None)


def lacks(recorded: bool) -> str:
    """The reason why no program in C can be built, "" if there is none."""
    if not shutil.which("cc"):
        return "there is no cc"
    if recorded and not library():
        return "it was not built: cargo build --release -p dashcam-c"
    return ""


def build(source: Path, recorded: bool) -> Path:
    """The program of a source, built now or before."""
    linked = library() if recorded else None
    texts = [source.read_bytes(), (HERE / "service.h").read_bytes()]
    reported = f"{source} {FLAGS} {linked} {linked.stat().st_mtime if linked else 0}".encode()
    digest = hashlib.sha256(b"\0".join([*texts, reported])).hexdigest()[:16]
    folder = ROOT / "target/zoo" / digest
    program = folder / source.parent.name
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    words = ["cc", *FLAGS, str(source), "-o", f"{program}.new"]
    if linked:
        link = folder / SONAME
        link.unlink(missing_ok=True)
        link.symlink_to(linked)
        words += ["-DWITH_DASHCAM", f"-I{ROOT / 'c/include'}", str(link), f"-Wl,-rpath,{folder}"]
    subprocess.run(words, check=True, timeout=BUILD_S)
    os.rename(f"{program}.new", program)
    return program
