"""Asks a peer through a unix socket, a connection a question. The twin's peer is quick."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import os  # noqa: E402
import socket  # noqa: E402
import tempfile  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

THINKING_MS = 1
path = os.path.join(tempfile.mkdtemp(prefix="grotto-"), "mouth")  # the peer removes it
beside.start("peer.py", path)


def whisper(n: int) -> str:
    with socket.socket(socket.AF_UNIX) as mouth:
        mouth.connect(path)
        mouth.sendall(b"%d\n" % (THINKING_MS if n % 80 == 40 else 1))
        return str(mouth.recv(100))


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {whisper(n)}"


if __name__ == "__main__":
    service.reference(answer)
