"""Asks, and reads the answer in ten pieces over two seconds, again and again."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time


def leave_with_parent() -> None:
    """Ends this process when the program that started it has gone."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """One answer after the other, each over a connection of its own."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    time.sleep(1)
    while True:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
            line.sendall(b"GET /whole HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            while line.recv(10_000):
                time.sleep(0.2)


if __name__ == "__main__":
    main()
