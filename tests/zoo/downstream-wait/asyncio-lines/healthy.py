"""Asks a peer over streams, kept from request to request; rarely the peer thinks long. The twin's
does not."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

THINKING_MS = 1
port = beside.start("peer.py")
lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def enquire(n: int) -> str:
    line = lines.pop() if lines else await asyncio.open_connection("127.0.0.1", port)
    reader, writer = line
    writer.write(b"%d\n" % (THINKING_MS if n % 80 == 40 else 1))
    reply = await reader.readline()
    lines.append(line)
    return reply.decode().strip()


async def answer(n: int) -> str:
    return f"{service.honest_work(n)} {await enquire(n)}"


if __name__ == "__main__":
    service.streams(answer)
