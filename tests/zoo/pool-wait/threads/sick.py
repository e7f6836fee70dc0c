"""Endpoints that are not async run in a few threads; now and then long jobs take all of them, and
what comes next waits for one. The twin's jobs have threads of their own."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import AsyncIterator

import anyio.to_thread
from fastapi import FastAPI


def press() -> None:
    time.sleep(0.5)


async def harvest(tokens: anyio.CapacityLimiter) -> None:
    while True:
        await asyncio.sleep(1.7)
        jobs = [anyio.to_thread.run_sync(press, limiter=tokens) for _ in range(3)]
        await asyncio.gather(*jobs)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    shared = anyio.to_thread.current_default_thread_limiter()
    shared.total_tokens = 3
    task = asyncio.create_task(harvest(shared))
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/{fruit}")
def price(fruit: str) -> int:
    return sum(i * i for i in range(3000)) % len(fruit)
