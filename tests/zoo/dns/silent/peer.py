"""A name server on 127.0.0.2: every host is 10.0.0.1; when asked to, it ignores every eightieth
query."""

from __future__ import annotations

import os
import socket
import sys
import threading


def leave_with_parent() -> None:
    """Ends this process when the program that started it has gone."""
    sys.stdin.buffer.read()
    os._exit(0)


def bound() -> socket.socket:
    """Port 53 where that is allowed and free, else any."""
    server = socket.socket(type=socket.SOCK_DGRAM)
    try:
        server.bind(("127.0.0.2", 53))
    except OSError:
        server.bind(("127.0.0.2", 0))
    return server


def main() -> None:
    """Prints the port, then answers."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    server, asked = bound(), 0
    print(server.getsockname()[1], flush=True)
    while True:
        query, asker = server.recvfrom(512)
        asked += 1
        if sys.argv[1] == "1" and asked % 80 == 40:
            continue
        flags, counts = bytes([0x81, 0x80]), bytes([0, 1, 0, 1, 0, 0, 0, 0])
        record = bytes([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1])
        server.sendto(query[:2] + flags + counts + query[12:] + record, asker)


if __name__ == "__main__":
    main()
