"""An async endpoint asks an HTTP backend in another process and awaits the answer; rarely that
takes long. The twin's backend is quick."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402
import httpx  # noqa: E402
from fastapi import FastAPI  # noqa: E402

app = FastAPI()
turns = itertools.count(1)
backend = beside.start("peer.py", "1")
almanac = httpx.AsyncClient(base_url=f"http://127.0.0.1:{backend}", timeout=5, trust_env=False)


async def consult_almanac(day: int) -> str:
    reply = await almanac.get(f"/day/{day}")
    return reply.text


@app.get("/{town}")
async def weather(town: str) -> str:
    sky = await consult_almanac(next(turns))
    return f"{sum(i * i for i in range(3000))} {town} {sky}"
