"""A peer whose accept queue is full does not answer the handshake. The twin's peer accepts."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import socket  # noqa: E402

peer = socket.socket()
peer.bind(("127.0.0.1", 0))
peer.listen(0 if service.SICK else 512)
address = peer.getsockname()
waiting = [socket.socket() for _ in range(3 if service.SICK else 0)]
for end in waiting:
    end.setblocking(False)
    end.connect_ex(address)


def dial() -> None:
    end = socket.socket()
    end.settimeout(0.6)
    try:
        end.connect(address)
    except OSError:
        pass
    end.close()


def answer(n: int) -> str:
    if n % 90 == 45:
        dial()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
