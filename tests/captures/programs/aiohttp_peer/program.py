"""Every so many requests a peer answers a task late."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import asyncio  # noqa: E402

peer = ("127.0.0.1", 0)


async def consult(word: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*peer)
    writer.write(word)
    reply = await reader.readline()
    writer.close()
    return reply


async def answer(n: int) -> str:
    return (await consult(b"late\n" if stage.is_due(n) else b"soon\n")).decode()


if __name__ == "__main__":
    peer = stage.late_peer(0.5)
    stage.aiohttp(answer)
