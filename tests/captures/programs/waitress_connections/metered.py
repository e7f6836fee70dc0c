"""Threads that write statements, each with a connection in hand until the archive has its statement."""

from __future__ import annotations

import threading
import time

import archive
from sqlalchemy import text
from storage import engine

EVERY_S = 1.5
# At once: more than the pool has connections for.
WRITERS = 5


def begin(takes_s: float) -> None:
    for number in range(WRITERS):
        threading.Thread(target=statements, args=(takes_s,), daemon=True, name=f"statements {number}").start()


def statements(takes_s: float) -> None:
    while True:
        time.sleep(EVERY_S - time.monotonic() % EVERY_S)
        write(takes_s)


def write(takes_s: float) -> int:
    connection = engine.connect()
    try:
        found = connection.execute(text("select 1")).scalar_one()
        archive.send(takes_s)
        return int(found)
    finally:
        connection.close()
