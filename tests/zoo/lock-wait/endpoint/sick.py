"""Endpoints that are not async read a table under a lock; a thread rebuilds it now and then while
it holds the lock. The twin builds first and holds the lock to swap."""

from __future__ import annotations

import threading
import time
from fastapi import FastAPI

app = FastAPI()
guard = threading.Lock()
table = dict.fromkeys(range(100), 1)


def build() -> dict[int, int]:
    time.sleep(0.45)
    return dict.fromkeys(range(100), 1)


def rebuild() -> None:
    global table
    while True:
        time.sleep(1.7)
        with guard:
            table = build()


@app.get("/{number}")
def look_up(number: int) -> int:
    with guard:
        found = table.get(number, 0)
    return found + sum(i * i for i in range(3000)) % 3


threading.Thread(target=rebuild, daemon=True).start()
