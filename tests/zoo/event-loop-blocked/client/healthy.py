"""An async endpoint asks an HTTP backend through a client that blocks; rarely that takes long, and
all others of the loop wait. The twin's backend is quick."""

from __future__ import annotations

import http.client
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402
from fastapi import FastAPI  # noqa: E402

app = FastAPI()
turns = itertools.count(1)
backend = beside.start("peer.py", "1")
almanac = http.client.HTTPConnection("127.0.0.1", backend, timeout=5)


def consult_almanac(day: int) -> str:
    almanac.request("GET", f"/day/{day}")
    return almanac.getresponse().read().decode()


@app.get("/{town}")
async def weather(town: str) -> str:
    return f"{sum(i * i for i in range(3000))} {town} {consult_almanac(next(turns))}"
