"""Accepts and reads; every 2.5 s it does not, for as many seconds as the first argument says."""

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
    """Prints the port, then accepts."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    away = float(sys.argv[1])
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0 if away else 64)
        print(server.getsockname()[1], flush=True)
        due = time.monotonic() + 2.5
        while True:
            if away and time.monotonic() > due:
                time.sleep(away)
                due = time.monotonic() + 2.5
            server.accept()[0].close()


if __name__ == "__main__":
    main()
