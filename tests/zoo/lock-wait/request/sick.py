"""A request waits for a peer's word while it holds what all the others need. In the twin the peer
does not think so long."""

from __future__ import annotations

import itertools
import socket
import sys
import threading
from pathlib import Path

from flask import Flask

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402

app = Flask("inn")
turns = itertools.count(1)
desk = threading.Lock()
kitchen = socket.create_connection(("127.0.0.1", beside.start("peer.py")))
THINKING_MS = 500


def inquire(wait_ms: int) -> str:
    kitchen.sendall(b"%d\n" % wait_ms)
    return kitchen.recv(100).decode()


def reserve(n: int) -> str:
    with desk:
        if n % 100 == 50:
            return inquire(THINKING_MS)
        return "fine"


@app.get("/table/<int:seat>")
def table(seat: int) -> str:
    n = next(turns)
    total = sum(i * i for i in range(3000))
    return f"{seat} {total} {reserve(n)}"
