"""A program that calls an HTTP server with every client, and records the very bytes that arrive
there.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import socket
import threading
import urllib.request
from typing import Any

from noting import frames, kinds, note


def _server() -> tuple[int, list[bytes]]:
    """A port that answers everything, and the bytes that arrived."""
    listening = socket.create_server(("127.0.0.1", 0))
    came: list[bytes] = []

    def serve() -> None:
        while True:
            connection, _ = listening.accept()
            with connection:
                said = b""
                while b"\r\n\r\n" not in said:
                    part = connection.recv(65536)
                    if not part:
                        break
                    said += part
                came.append(said)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1], came


def _raw(port: int, headers: Any = ()) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.putrequest("GET", "/raw")
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    said = connection.getresponse().read()
    note("", "connection", sorted(vars(connection)), kinds(connection.endheaders))
    connection.close()
    return said


async def _with_aiohttp(url: str) -> bytes:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return await reply.read()


async def _with_httpx(url: str) -> bytes:
    import httpx

    async with httpx.AsyncClient() as client:
        return (await client.get(url)).content


def main() -> None:
    """All clients, with a server that exists and one that does not."""
    port, came = _server()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = closed.getsockname()[1]
        for there in (port, nobody):
            url = f"http://127.0.0.1:{there}/a?b=c"
            clients: dict[str, Any] = {
                "http.client": lambda: _raw(there), "urllib": lambda: urllib.request.urlopen(url).read(),
                "traceparent": lambda: _raw(there, [("TraceParent", "00-1"), (b"X", b"y")])}
            if importlib.util.find_spec("requests"):
                import requests

                clients["requests"] = lambda: requests.get(url).content
            if importlib.util.find_spec("httpx"):
                import httpx

                clients["httpx"] = lambda: httpx.get(url).content
                clients["httpx, async"] = lambda: asyncio.run(_with_httpx(url))
            if importlib.util.find_spec("aiohttp"):
                clients["aiohttp"] = lambda: asyncio.run(_with_aiohttp(url))
            for name, client in clients.items():
                came.clear()
                try:
                    note("", name, client(), came)
                except Exception as error:  # noqa: BLE001
                    note("", name, frames(error))


main()
