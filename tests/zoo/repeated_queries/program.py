"""A page asks for each row by itself, hundreds of times; the twin asks for all of them at once."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402
import service  # noqa: E402

import threading  # noqa: E402

import redis  # noqa: E402

port = beside.start("peer.py")
local = threading.local()


def store() -> "redis.Redis[bytes]":
    if not hasattr(local, "store"):
        local.store = redis.Redis(port=port, protocol=2, lib_name=None, lib_version=None)
    return local.store


def basket(n: int) -> int:
    names = [f"row{i}" for i in range(400 if n % 60 == 30 else 2)]
    if not service.SICK:
        return len(store().mget(names))
    return sum(store().get(name) is not None for name in names)


def answer(n: int) -> str:
    return str(service.honest_work(n) + basket(n))


if __name__ == "__main__":
    service.plain(answer)
