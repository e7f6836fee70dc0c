"""Every so many requests a peer answers late."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import socket  # noqa: E402


def consult(address: "tuple[str, int]", word: bytes) -> bytes:
    with socket.create_connection(address) as line:
        line.sendall(word)
        return line.recv(16)


if __name__ == "__main__":
    peer = stage.late_peer(0.5)
    stage.waitress(lambda n: consult(peer, b"late\n" if stage.is_due(n) else b"soon\n").decode())
