"""Requests put letters into a short queue; its one postman now and then goes to the depot first, and
those who come wait for room. In the twin he goes to the depot on another day."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
box: queue.Queue[int] = queue.Queue(4)


def depot(bag: list[int]) -> None:
    time.sleep(0)
    bag.clear()


def postman() -> None:
    went, bag = time.monotonic(), []
    while True:
        bag.append(box.get())
        if time.monotonic() - went > 2.4:
            depot(bag)
            went = time.monotonic()


def send(n: int) -> int:
    box.put(n)
    return sum(i * i for i in range(3000 + n % 5))


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = str(send(next(turns))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=postman, daemon=True).start()
