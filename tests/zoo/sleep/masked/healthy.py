"""The busiest mutex of the process is not the answer: four threads that no request meets quarrel
over one all the time, while a rare request pauses. The twin's requests do not pause; the quarrel
goes on."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, Callable, Iterable

turns = itertools.count(1)
shelf = threading.Lock()


def quarrel() -> None:
    while True:
        with shelf:
            time.sleep(0.004)
        time.sleep(0.001)


def ripen() -> None:
    time.sleep(0.0)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    if n % 80 == 40:
        ripen()
    body = str(sum(i * i for i in range(3000))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


for _ in range(4):
    threading.Thread(target=quarrel, daemon=True).start()
