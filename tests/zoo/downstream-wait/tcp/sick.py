"""Asks a peer over TCP, a connection a thread; rarely the peer thinks long. The twin's does
not."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import socket  # noqa: E402
import threading  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

THINKING_MS = 500
port = beside.start("peer.py")
local = threading.local()


def enquire(n: int) -> str:
    if not hasattr(local, "line"):
        local.line = socket.create_connection(("127.0.0.1", port))
    local.line.sendall(b"%d\n" % (THINKING_MS if n % 80 == 40 else 1))
    return str(local.line.recv(100))


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {enquire(n)}"


if __name__ == "__main__":
    service.plain(answer)
