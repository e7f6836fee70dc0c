"""Each twentieth request takes a connection of SQLAlchemy's queue and forgets to give it back; when
all three are gone everybody waits for the pool's time limit. In the twin it gives it back."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import tempfile  # noqa: E402
from typing import Any  # noqa: E402

from sqlalchemy import create_engine, text  # noqa: E402
from sqlalchemy.exc import TimeoutError as PoolTimeout  # noqa: E402
from sqlalchemy.pool import QueuePool  # noqa: E402

shelf = tempfile.TemporaryDirectory()
engine = create_engine(
    f"sqlite:///{shelf.name}/a.db",
    poolclass=QueuePool,
    pool_size=3,
    max_overflow=0,
    pool_timeout=0.4,
    connect_args={"check_same_thread": False},
)
unread: list[Any] = []


def report() -> None:
    line = engine.connect()
    rows = line.execute(text("select 1"))
    if service.SICK:
        unread.append(rows)
    else:
        line.close()


def fetch(n: int) -> int:
    with engine.connect() as line:
        return int(line.execute(text("select 1")).scalar_one())


def answer(n: int) -> str:
    if n % 20 == 0 and len(unread) < 3:
        report()
    try:
        return str(service.honest_work(n) + fetch(n))
    except PoolTimeout:
        return "busy"


if __name__ == "__main__":
    fetch(0)
    service.plain(answer)
