"""SQLAlchemy's queue of two connections serves all requests; sometimes a thread keeps both for
long. In the twin it does its long work before it takes them."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

from sqlalchemy import create_engine, text  # noqa: E402
from sqlalchemy.pool import QueuePool  # noqa: E402

shelf = tempfile.TemporaryDirectory()
engine = create_engine(
    f"sqlite:///{shelf.name}/a.db",
    poolclass=QueuePool,
    pool_size=2,
    max_overflow=0,
    connect_args={"check_same_thread": False},
)


def settle() -> None:
    time.sleep(0.5)


def clerk() -> None:
    while True:
        time.sleep(2.1)
        if not service.SICK:
            settle()
        with engine.connect(), engine.connect():
            if service.SICK:
                settle()


def fetch(n: int) -> int:
    with engine.connect() as line:
        return int(line.execute(text("select 1")).scalar_one())


def answer(n: int) -> str:
    return str(service.honest_work(n) + fetch(n))


if __name__ == "__main__":
    fetch(0)
    threading.Thread(target=clerk, daemon=True).start()
    service.plain(answer)
