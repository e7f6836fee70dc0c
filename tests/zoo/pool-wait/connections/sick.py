"""Two connections in a queue serve all requests; sometimes both are out for long. In the twin the
long tour has a boat of its own."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
boats: queue.Queue[int] = queue.Queue()
for boat in (1, 2):
    boats.put(boat)


def tour() -> None:
    time.sleep(0.5)


def harbor() -> None:
    while True:
        time.sleep(2.4)
        taken = [boats.get(), boats.get()]
        tour()
        for one in taken:
            boats.put(one)


def lend(n: int) -> int:
    boat = boats.get()
    try:
        return sum(i * i for i in range(3000 + n % 5)) + boat
    finally:
        boats.put(boat)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = str(lend(next(turns))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=harbor, daemon=True).start()
