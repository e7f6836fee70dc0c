"""The work of a request, the same for both services."""

import sqlite3
import threading

LOCAL = threading.local()


def database() -> sqlite3.Connection:
    """A thread's own, with a hundred rows."""
    if not hasattr(LOCAL, "db"):
        LOCAL.db = sqlite3.connect(":memory:")
        LOCAL.db.execute("create table price (sku text primary key, cents integer, name text)")
        rows = [(str(i), i * 7, f"thing {i}") for i in range(100)]
        LOCAL.db.executemany("insert into price values (?, ?, ?)", rows)
    return LOCAL.db


def price(sku: str) -> dict[str, object]:
    """One query and some text."""
    found = database().execute("select cents, name from price where sku = ?", (sku,)).fetchone()
    lines = [f"<li>{found[1]} {i}: {found[0] * i / 100:.2f}</li>" for i in range(60)]
    return {"sku": sku, "cents": found[0], "html": "".join(lines)}
