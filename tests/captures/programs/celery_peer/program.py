"""Every so many tasks a peer answers late."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import socket  # noqa: E402

peer = ("127.0.0.1", 0)


def consult(word: bytes) -> bytes:
    with socket.create_connection(peer) as line:
        line.sendall(word)
        return line.recv(16)


def answer(n: int) -> str:
    return consult(b"late\n" if stage.is_due(n) else b"soon\n").decode()


if __name__ == "__main__":
    peer = stage.late_peer(0.5)
    stage.celery(answer)
