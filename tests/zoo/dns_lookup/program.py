"""Each request looks up a host by the C library's resolver, whose only name server rarely says
nothing to the first query for a name; it is asked again after a second. The twin's always answers."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import socket  # noqa: E402

import beside  # noqa: E402

beside.start("peer.py", service.NAMESERVER, int(service.SICK))


def locate(n: int) -> str:
    found = socket.getaddrinfo(f"host{n}.example", 80, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {locate(n)}"


if __name__ == "__main__":
    service.plain(answer)
