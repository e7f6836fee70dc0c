"""A peer in another process takes its time now and then. The twin's does not."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import socket  # noqa: E402
import subprocess  # noqa: E402
import threading  # noqa: E402

PEER = """
import socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def serve(end):
    while True:
        line = end.recv(64)
        if not line:
            return
        if line.startswith(b"hard"):
            time.sleep(0.5)
        end.sendall(b"ok")
while True:
    end, _ = server.accept()
    threading.Thread(target=serve, args=(end,), daemon=True).start()
"""
child = subprocess.Popen([sys.executable, "-S", "-c", PEER], stdout=subprocess.PIPE, env={})
port = int(child.stdout.readline())  # type: ignore[union-attr]
local = threading.local()


def inquire(text: bytes) -> bytes:
    if not hasattr(local, "end"):
        local.end = socket.create_connection(("127.0.0.1", port))
    local.end.sendall(text)
    return local.end.recv(64)


def answer(n: int) -> str:
    hard = service.SICK and n % 90 == 45
    return str(service.honest_work(n)) + inquire(b"hard" if hard else b"easy").decode()


if __name__ == "__main__":
    try:
        service.plain(answer)
    finally:
        child.kill()
