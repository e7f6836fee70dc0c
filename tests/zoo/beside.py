"""Starts the processes beside a program: a peer, a reader, a source of disturbance.

Each is a script in the program's own folder. It runs isolated (-I) so that nothing of the program's
environment reaches it, and ends when its standard input does, that is, when the program has ended.
A script that listens prints its port first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

_started: list[Any] = []


def spawn(script: str, *words: object, **options: Any) -> "subprocess.Popen[bytes]":
    """Starts a script in the folder of the running program; returns its process."""
    path = Path(sys.modules["__main__"].__file__ or "").resolve().parent / script
    if not path.exists():
        path = Path.cwd() / script
    command = [sys.executable, "-I", str(path), *map(str, words)]
    options.setdefault("stdin", subprocess.PIPE)
    process = subprocess.Popen(command, **options)
    _started.append(process)
    return process


def start(script: str, *words: object) -> int:
    """Starts a script that listens; returns its port."""
    process = spawn(script, *words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return int(process.stdout.readline())
