"""All threads print bills through one buffered stream into a spool that pauses now and then: one
thread is inside the stream's own lock, in C, and the others wait for it at the very same line. In
the twin the spool does not pause."""

from __future__ import annotations

import itertools
import os
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
spool, nib = os.pipe()
sheet = os.fdopen(nib, "w", buffering=1)


def rest() -> None:
    time.sleep(0.5)


def press() -> None:
    rested = time.monotonic()
    while True:
        os.read(spool, 65536)
        if time.monotonic() - rested > 2.4:
            rest()
            rested = time.monotonic()


def bill(n: int) -> int:
    sheet.write("-" * 9000 + "\n")
    return sum(i * i for i in range(3000 + n % 5))


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = str(bill(next(turns))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=press, daemon=True).start()
