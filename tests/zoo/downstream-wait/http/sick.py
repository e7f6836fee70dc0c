"""Asks an HTTP backend in another process; rarely that takes long. The twin's backend is quick."""

from __future__ import annotations

import http.client
import itertools
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402

turns = itertools.count(1)
backend = beside.start("peer.py", "500")
almanac = http.client.HTTPConnection("127.0.0.1", backend, timeout=5)


def consult_almanac(day: int) -> str:
    almanac.request("GET", f"/day/{day}")
    return almanac.getresponse().read().decode()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = f"{sum(i * i for i in range(3000))} {consult_almanac(n)}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
