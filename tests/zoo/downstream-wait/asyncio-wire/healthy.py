"""Asks a peer over a protocol of its own; rarely the peer thinks long. The twin's does not."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncio  # noqa: E402

import beside  # noqa: E402
import service  # noqa: E402

THINKING_MS = 1
port = beside.start("peer.py")


class Wire(asyncio.Protocol):
    """Questions and answers in order over one connection, as client libraries do."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[str]] = []
        self.end: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.end = transport

    def data_received(self, data: bytes) -> None:
        for line in data.decode().split():
            self.open.pop(0).set_result(line)

    async def put(self, question: bytes) -> str:
        assert self.end is not None
        self.open.append(asyncio.get_running_loop().create_future())
        self.end.write(question)
        return await self.open[-1]


wires: list[Wire] = []


async def enquire(n: int) -> str:
    if wires:
        wire = wires.pop()
    else:
        _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
    reply = await wire.put(b"%d\n" % (THINKING_MS if n % 80 == 40 else 1))
    wires.append(wire)
    return reply


async def answer(n: int) -> str:
    return f"{service.honest_work(n)} {await enquire(n)}"


if __name__ == "__main__":
    service.streams(answer)
