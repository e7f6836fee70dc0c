"""Opens a connection a request to a peer with a tiny backlog, which sometimes does not accept for
a moment: the kernel drops the next ones, who try again after a second. The twin's peer always
accepts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import socket  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

port = beside.start("peer.py", 0.15)


def ring_up(n: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as bell:
        return bell.send(b"%d\n" % n)


def answer(n: int) -> str:
    return str(service.honest_work(n) + ring_up(n))


if __name__ == "__main__":
    service.plain(answer)
