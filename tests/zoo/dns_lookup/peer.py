"""A name server on port 53 of an address of its own: every host is 10.0.0.1 and has no address of
version 6. When asked to, it ignores the first queries for one name in eighty."""

from __future__ import annotations

import os
import socket
import sys
import threading


def leave_with_parent() -> None:
    """Ends this process when the program that started it has gone."""
    sys.stdin.buffer.read()
    os._exit(0)


def reply(query: bytes) -> bytes:
    """As RFC 1035 lays it out: the question again, and the answer to one for an A record."""
    end = query.index(0, 12) + 5
    found = query[end - 4 : end - 2] == bytes([0, 1])
    record = bytes([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1])
    counts = bytes([0, 1, 0, int(found), 0, 0, 0, 0])
    return query[:2] + bytes([0x81, 0x80]) + counts + query[12:end] + (record if found else b"")


def main() -> None:
    """Prints the port, then answers."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    server = socket.socket(type=socket.SOCK_DGRAM)
    server.bind((sys.argv[1], 53))
    print(53, flush=True)
    names: dict[bytes, int] = {}
    asked: set[bytes] = set()
    while True:
        query, asker = server.recvfrom(512)
        end = query.index(0, 12)
        number = names.setdefault(query[12:end], len(names))
        again = query[12 : end + 5] in asked
        asked.add(query[12 : end + 5])
        if sys.argv[2] == "1" and number % 80 == 40 and not again:
            continue
        server.sendto(reply(query), asker)


if __name__ == "__main__":
    main()
