"""`python -m dashcam ...` is the `dashcam` command of this environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def main() -> int:
    """Replaces this process by the command. Returns only if the command is missing."""
    beside = Path(sys.executable).parent / "dashcam"
    binary = str(beside) if beside.exists() else shutil.which("dashcam")
    if binary is None:
        print("dashcam: the dashcam command is not installed here; wanted "
              f"{beside}; reinstall the package", file=sys.stderr)
        return 2
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
