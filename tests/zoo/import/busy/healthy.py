"""Some requests are the first to need a module, and a table is computed as it loads. The twin
imports all of them before it serves. The modules are written when the program starts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gc  # noqa: E402
import importlib  # noqa: E402
import signal  # noqa: E402
import tempfile  # noqa: E402

import service  # noqa: E402

folder = tempfile.TemporaryDirectory(prefix="atlas-")
sys.path.insert(0, folder.name)
sys.dont_write_bytecode = True
gc.disable()  # compiling makes so many objects that its pauses would be a second cause
SHEETS = range(1, 9)
CONTENT = "rows = [sum(range(k % 300)) for k in range(400_000)]\n"
for sheet in SHEETS:
    Path(folder.name, f"atlas_{sheet}.py").write_text(CONTENT)
importlib.invalidate_caches()


def consult(sheet: int) -> str:
    return importlib.import_module(f"atlas_{sheet}").__name__


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {consult(max(1, min(n // 60, 8)))}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the folder is removed
    consult(1)
    for sheet in SHEETS:
        consult(sheet)
    service.plain(answer)
