"""A thread tidies up by hand while millions of objects live. The twin has frozen them first."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
garden = [[i] for i in range(5_000_000)]


def trim() -> None:
    gc.collect()


def gardener() -> None:
    while True:
        time.sleep(2.4)
        trim()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = str(sum(i * i for i in range(3000 + n % 5))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=gardener, daemon=True).start()
