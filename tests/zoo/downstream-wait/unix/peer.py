"""A peer on a unix socket: answers a line with a line after as many ms as it says. Removes its
path when it ends."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time


def leave_with_parent() -> None:
    """Ends this process when the program that started it has gone."""
    sys.stdin.buffer.read()
    shutil.rmtree(os.path.dirname(sys.argv[1]), ignore_errors=True)
    os._exit(0)


def converse(line: socket.socket) -> None:
    """One connection: one question."""
    with line:
        words = line.recv(200).decode().split()
        if words:
            time.sleep(int(words[0]) / 1e3)
            line.sendall(b"fine\n")


def main() -> None:
    """Prints a 0 when it listens, then answers."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(sys.argv[1])
        server.listen(64)
        print(0, flush=True)
        while True:
            threading.Thread(target=converse, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
