"""Clients of the measured services: connections that remain open, each with one request under way.

They never sleep: they ask the kernel for answers again and again. A client that sleeps lets its CPU
go idle, and then the server's `send` has to wake that CPU, on a virtual machine some microseconds
in the server's time. The slower a server answers, the more often its clients sleep: what a recorder
costs looked up to twice as large.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from typing import Callable

REQUEST = b"GET /price/5 HTTP/1.1\r\nHost: bench\r\n\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
CONNECTIONS = 8


class Clients:
    """CONNECTIONS connections that remain open: setting one up takes a server longer than most
    requests, and would dominate p99.9.
    """

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.sent: dict[int, float] = {}
        #: Answers so far whose status was not 200.
        self.errors = 0
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            self.selector.register(connection, selectors.EVENT_READ, bytearray())

    def ask(self, requests: int) -> list[float]:
        """Sends that many requests over all of them at once; the ms that each answer took."""
        return self.exchange(lambda sent: sent < requests)

    def ask_for(self, seconds: float) -> list[float]:
        """Sends requests for so long; the ms that each answer took."""
        end = time.perf_counter() + seconds
        return self.exchange(lambda _: time.perf_counter() < end)

    def exchange(self, more: Callable[[int], bool]) -> list[float]:
        """Sends requests while `more(requests sent so far)`; the ms that each answer took."""
        took: list[float] = []
        sent = 0
        for key in self.selector.get_map().values():
            sent += self.send(key.fileobj)
        while len(took) < sent:
            for key, _ in self.selector.select(0):
                connection, got = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                received = connection.recv(65536)
                if not received:
                    raise SystemExit("bench: the service closed a connection that was in use")
                got += received
                head, end, body = bytes(got).partition(b"\r\n\r\n")
                length = LENGTH.search(head)
                if end and length and len(body) >= int(length[1]):
                    self.errors += b" 200 " not in head[:13]
                    got.clear()
                    took.append((time.perf_counter() - self.sent[connection.fileno()]) * 1e3)
                    sent += self.send(connection) if more(sent) else 0
        return took

    def send(self, connection: object) -> int:
        """Sends a request over one of them."""
        assert isinstance(connection, socket.socket)
        self.sent[connection.fileno()] = time.perf_counter()
        connection.sendall(REQUEST)
        return 1

    def close(self) -> None:
        """Ends them."""
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()
