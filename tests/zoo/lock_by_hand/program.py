"""A plain lock taken with acquire() by a thread that then talks to a slow peer. The twin talks first."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import socket  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

guard = threading.Lock()


def peer(end: socket.socket) -> None:
    while end.recv(16):
        time.sleep(0.45)
        end.send(b"ok")


def consult(end: socket.socket) -> None:
    end.send(b"?")
    end.recv(16)


def courier() -> None:
    near, far = socket.socketpair()
    threading.Thread(target=peer, args=(far,), daemon=True).start()
    while True:
        time.sleep(1.6)
        if not service.SICK:
            consult(near)
        guard.acquire()
        if service.SICK:
            consult(near)
        guard.release()


def stamp(n: int) -> int:
    guard.acquire()
    value = n * 2
    guard.release()
    return value


def answer(n: int) -> str:
    return str(service.honest_work(n) + stamp(n))


if __name__ == "__main__":
    threading.Thread(target=courier, name="courier", daemon=True).start()
    service.reference(answer)
