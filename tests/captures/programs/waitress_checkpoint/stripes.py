"""Locks by number. Nothing in them shows which thread has one: they are taken by hand."""

from __future__ import annotations

import threading


class Held:
    """Takes its locks in order, and releases them in reverse."""

    def __init__(self, locks: list[threading.Lock]) -> None:
        self.locks = locks

    def __enter__(self) -> None:
        for lock in self.locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self.locks):
            lock.release()


class Stripes:
    """So many locks."""

    def __init__(self, count: int) -> None:
        self.locks = [threading.Lock() for _ in range(count)]

    def of(self, n: int) -> Held:
        return Held([self.locks[n % len(self.locks)]])

    def all(self) -> Held:
        return Held(self.locks)
