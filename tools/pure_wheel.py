"""Makes the wheel without native modules from a wheel with them: `py3-none-any`, for interpreters and
systems that dashcam does not record. The whole surface is there and type-checks; nothing is recorded.

    python3 tools/pure_wheel.py WHEEL FOLDER

It needs the package `wheel`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TAG = "py3-none-any"
COMMAND = "[console_scripts]\ndashcam = dashcam._absent:command\n"


def make(native: Path, folder: Path) -> None:
    """Writes the wheel into the folder."""
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", temporary, str(native)], check=True,
                       stdout=subprocess.DEVNULL)
        (root,) = Path(temporary).iterdir()
        for library in root.rglob("*.so"):
            library.unlink()
        for data in root.glob("*.data"):
            shutil.rmtree(data)
        (info,) = root.glob("*.dist-info")
        about = (info / "WHEEL").read_text("utf-8")
        about = re.sub(r"^Tag: .*\n", "", about, flags=re.MULTILINE)
        about = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: true", about, flags=re.MULTILINE)
        (info / "WHEEL").write_text(f"{about.rstrip()}\nTag: {TAG}\n", "utf-8")
        (info / "entry_points.txt").write_text(COMMAND, "utf-8")
        shutil.rmtree(info / "sboms", ignore_errors=True)  # of the native modules
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(folder), str(root)], check=True,
                       stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
