"""A resolver of its own: asks a name server over UDP, which rarely says nothing, and asks again
after half a second. The name server is on port 53 where that may be bound (root). The twin's
always answers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import socket  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

port = beside.start("peer.py", 0)


def question(n: int) -> bytes:
    """A query for an A record, as RFC 1035 lays it out."""
    labels = b"".join(bytes([len(w)]) + w for w in (b"host%d" % (n % 50), b"example"))
    head = (n & 0xFFFF).to_bytes(2, "big") + bytes([1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    return head + labels + bytes([0, 0, 1, 0, 1])


def resolve(n: int) -> str:
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.5)
        asker.connect(("127.0.0.2", port))
        for _ in range(3):
            asker.send(question(n))
            try:
                return socket.inet_ntoa(asker.recv(512)[-4:])
            except socket.timeout:
                continue
    raise OSError("no such host")


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {resolve(n)}"


if __name__ == "__main__":
    service.plain(answer)
