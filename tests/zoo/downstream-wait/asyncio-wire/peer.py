"""A peer over TCP: answers a line with a line; the word before it is how long to think, in ms."""

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


def converse(line: socket.socket) -> None:
    """One connection until its end."""
    while True:
        words = line.recv(200).decode().split()
        if not words:
            return
        time.sleep(int(words[0]) / 1e3)
        line.sendall(b"fine\n")


def main() -> None:
    """Prints the port, then answers."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=converse, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
