"""A thread computes (without the interpreter's own lock) while it holds what requests need. The
twin computes first and takes the lock for the result only."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
ledger = threading.Lock()
rows: dict[int, bytes] = {}


def press() -> bytes:
    return hashlib.pbkdf2_hmac("sha256", b"ink", b"paper", 2_000_000)


def presser() -> None:
    while True:
        time.sleep(2.2)
        sheet = press()
        with ledger:
            rows[0] = sheet


def enrol(n: int) -> int:
    with ledger:
        rows[n % 100] = b"row"
        return len(rows)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = str(sum(i * i for i in range(3000)) + enrol(n)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=presser, daemon=True).start()
