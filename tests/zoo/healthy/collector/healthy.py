"""The collector runs over and over, some ms each time."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
meadow = [[i] for i in range(60_000)]


def mow() -> None:
    while True:
        time.sleep(0.5)
        gc.collect()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = str(sum(i * i for i in range(3000 + n % 5))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


threading.Thread(target=mow, daemon=True).start()
