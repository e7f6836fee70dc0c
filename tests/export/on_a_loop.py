"""Requests that overlap on an event loop; one of them hands work to a thread."""

import asyncio
import json
import sys
import time

import dashcam


def resize():
    time.sleep(0.3)


async def handler(number):
    with dashcam.request(f"GET /async/{number}"):
        with dashcam.span("db.query", number=number):
            await asyncio.sleep(0.1 * number)
        dashcam.event("half.way", number=number)
        if number == 2:
            await asyncio.to_thread(resize)
        with dashcam.span("render"):
            await asyncio.sleep(0.2)


async def main():
    await asyncio.gather(*(asyncio.create_task(handler(number)) for number in range(1, 5)))


asyncio.run(main())
json.dump({"capture": str(dashcam.snap("export test"))}, sys.stdout)
