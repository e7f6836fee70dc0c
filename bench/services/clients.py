"""Clients of the measured services: connections that remain open, each with one request under way."""

from __future__ import annotations

import re
import selectors
import socket
import time

REQUEST = b"GET /price/5 HTTP/1.1\r\nHost: bench\r\n\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
CONNECTIONS = 8


class Clients:
    """CONNECTIONS connections that remain open: setting one up takes a server longer than most
    requests, and would dominate p99.9."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.sent: dict[int, float] = {}
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            self.selector.register(connection, selectors.EVENT_READ, bytearray())

    def ask(self, requests: int) -> list[float]:
        """Sends that many requests over all of them at once; the ms that each answer took."""
        took: list[float] = []
        left = requests
        for key in self.selector.get_map().values():
            left -= self.send(key.fileobj)
        while len(took) < requests:
            for key, _ in self.selector.select():
                connection, got = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                got += connection.recv(65536) or b"\r\n\r\ncontent-length: 0"
                head, _, body = bytes(got).partition(b"\r\n\r\n")
                length = LENGTH.search(head)
                if length and len(body) >= int(length[1]):
                    got.clear()
                    took.append((time.perf_counter() - self.sent[connection.fileno()]) * 1e3)
                    left -= self.send(connection) if left else 0
        return took

    def send(self, connection: object) -> int:
        """Sends requests over one of them."""
        assert isinstance(connection, socket.socket)
        self.sent[connection.fileno()] = time.perf_counter()
        connection.sendall(REQUEST)
        return 1

    def close(self) -> None:
        """Ends them."""
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()
