"""A rare report is written as one huge document. The twin's report has a page of rows."""

from __future__ import annotations

import itertools
import json
from typing import Any, Callable, Iterable

turns = itertools.count(1)
rows = [
    {"city": f"city {i}", "lat": i / 7, "lon": i / 11, "tags": ["a", "b"]} for i in range(150_000)
]


def publish(count: int) -> bytes:
    return json.dumps(rows[:count]).encode()[:2000]


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = publish(len(rows) if n % 30 == 15 else 100)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
