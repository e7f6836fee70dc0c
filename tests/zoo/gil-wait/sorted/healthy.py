"""A thread sorts a long list in one call. The twin sorts it in slices and lets others run
between."""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
deck = [random.random() for _ in range(2_000_000)]


def arrange() -> int:
    done = 0
    for start in range(0, len(deck), 5_000):
        done += len(sorted(deck[start : start + 5_000]))
        time.sleep(0.001)
    return done


def croupier() -> None:
    while True:
        time.sleep(2.2)
        arrange()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = str(sum(i * i for i in range(3000 + n % 5))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=croupier, daemon=True).start()
