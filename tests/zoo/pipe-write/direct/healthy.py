"""Writes a line a request into a small pipe whose reader sometimes looks away. The twin's reader
always reads."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402

turns = itertools.count(1)
F_SETPIPE_SZ = 1031
reader = beside.spawn("reader.py", 2.2, 0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
assert reader.stdin is not None
slate = reader.stdin.fileno()
fcntl.fcntl(slate, F_SETPIPE_SZ, 4096)


def jot(n: int) -> None:
    os.write(slate, b"%d %s\n" % (n, b"." * 600))


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    jot(n)
    body = str(sum(i * i for i in range(3000))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
