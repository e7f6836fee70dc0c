"""A request and a background thread take two accounts' locks by `acquire`, in opposite order, the second with a
time limit; no `with` tells who has one. The twin takes them in the same order."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402


class Account:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cents = 0


ours, theirs = Account(), Account()
due = threading.Event()


def settle(first: Account, second: Account) -> None:
    first.lock.acquire()
    try:
        time.sleep(0.03)
        if second.lock.acquire(timeout=0.9):
            first.cents, second.cents = 0, 0
            second.lock.release()
    finally:
        first.lock.release()


def settler() -> None:
    while True:
        due.wait()
        due.clear()
        settle(*((theirs, ours) if service.SICK else (ours, theirs)))


def pay(cents: int) -> bool:
    ours.lock.acquire()
    try:
        time.sleep(0.01)
        if not theirs.lock.acquire(timeout=0.5):
            return False
        theirs.cents += cents
        theirs.lock.release()
        return True
    finally:
        ours.lock.release()


def answer(n: int) -> str:
    if n % 100 == 50:
        due.set()
        time.sleep(0.003)
        pay(n)
    return str(service.honest_work(n))


threading.Thread(target=settler, name="settler", daemon=True).start()
if __name__ == "__main__":
    service.plain(answer)
