"""The log is a pipe to a collector that sometimes looks away: one writer waits for the pipe, the
others for that writer. The twin's collector always reads."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import fcntl  # noqa: E402
import io  # noqa: E402
import logging  # noqa: E402
import subprocess  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

F_SETPIPE_SZ = 1031
collector = beside.spawn("reader.py", 2.2, 0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
assert collector.stdin is not None
fcntl.fcntl(collector.stdin.fileno(), F_SETPIPE_SZ, 4096)
log = logging.getLogger("voyage")
log.propagate = False
log.addHandler(logging.StreamHandler(io.TextIOWrapper(collector.stdin, write_through=True)))


def remark(n: int) -> None:
    log.warning("day %d %s", n, "." * 600)


def answer(n: int) -> str:
    remark(n)
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
