"""One database connection serves all threads; a rare tally keeps its lock, in C, for long, and who
comes next waits for it with the GIL in hand. In the twin the tally has a connection of its own, and a
tenth of the rows."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)


def open_books(rows: int) -> sqlite3.Connection:
    books = sqlite3.connect(":memory:", check_same_thread=False)
    books.execute("create table pages(a integer, b integer)")
    books.executemany("insert into pages values(?, ?)", [(n, n % 97) for n in range(rows)])
    return books


shelf = open_books(5000)
desk = open_books(500)


def tally() -> None:
    desk.execute("select count(*) from pages x, pages y where x.b < y.b").fetchone()


def clerk() -> None:
    while True:
        time.sleep(2.4)
        tally()


def leaf(n: int) -> int:
    return int(shelf.execute("select b from pages where rowid = ?", (1 + n % 99,)).fetchone()[0])


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = str(leaf(next(turns))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=clerk, daemon=True).start()
