"""Short work with a connection."""

from __future__ import annotations

from sqlalchemy import text
from storage import engine


def charge(n: int) -> int:
    connection = engine.connect()
    found = connection.execute(text("select :n"), {"n": n}).scalar_one()
    connection.close()
    return int(found)
