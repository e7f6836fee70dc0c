"""tests/conformance/wire.py: what a server's haste or delay changes is not compared."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import wire  # noqa: E402

SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
SAID, END = b"\x81\x04said", b"\x88\x02\x03\xe8"
RESET = struct.pack("ii", 1, 0)


class OneConnection(unittest.TestCase):
    """Each test has a server of one connection, which does as the test says."""

    def serve(self, does: Callable[[socket.socket], None]) -> int:
        """Returns its port."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)

        def accept() -> None:
            connection, _ = listening.accept()
            does(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        self.addCleanup(thread.join)
        return int(listening.getsockname()[1])

    def conversation(self, closes: Callable[[socket.socket], None], end: bytes = END) -> bytes:
        """A websocket whose server ends it, and then closes the connection."""

        def serve(connection: socket.socket) -> None:
            while b"\r\n\r\n" not in connection.recv(4096):
                pass
            connection.sendall(SWITCHES)
            connection.recv(4096)
            connection.sendall(SAID + end)
            closes(connection)

        return wire.websocket(self.serve(serve), "case", "/", "said")

    def test_a_server_that_closes_before_it_reads_the_clients_end_ends_the_same_conversation(self) -> None:
        def reads(connection: socket.socket) -> None:
            connection.recv(4096)
            connection.close()

        self.assertEqual(self.conversation(resets), self.conversation(reads))

    def test_a_reset_without_the_servers_end_is_a_difference(self) -> None:
        self.assertIn(b"ConnectionResetError", self.conversation(resets, end=b""))

    def test_a_client_that_leaves_waits_until_the_server_has_closed(self) -> None:
        closed = threading.Event()

        def serve(connection: socket.socket) -> None:
            connection.recv(4096)
            connection.sendall(b"first")
            while connection.recv(4096):
                pass
            closed.set()
            connection.close()

        port = self.serve(serve)
        self.assertEqual(wire.exchange(port, b"request", leaves_after=5), b"first")
        self.assertTrue(closed.is_set())


def resets(connection: socket.socket) -> None:
    """Closes with a reset, once the client's end has arrived."""
    connection.recv(1, socket.MSG_PEEK)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


class Logs(unittest.TestCase):
    """Lines that only some runs have."""

    def test_where_eventlets_hub_goes_on_is_no_part_of_a_traceback(self) -> None:
        head, tail = b"Traceback (most recent call last):\n", b'  File "/a/eventlet/wsgi.py", line 4, in handle\n    close()\nValueError\n'
        poll = b'  File "/a/eventlet/hubs/poll.py", line 111, in wait\n    listener.cb(fileno)\n    ~~~~~~~~~~~^^^^^^^^\n'
        timer = (b'  File "/a/eventlet/hubs/hub.py", line 471, in fire_timers\n    timer()\n'
                 b'  File "/a/eventlet/hubs/timer.py", line 59, in __call__\n    cb(*args, **kw)\n')
        self.assertEqual(wire.steady(head + poll + tail + b"Removing descriptor: 6\n"), wire.steady(head + timer + tail))

    def test_how_often_a_lost_client_is_written_to_is_not_compared(self) -> None:
        self.assertEqual(wire.steady(b"socket.send() raised exception.\n" * 3 + b"end\n"), b"end\n")

    def test_where_sanic_ran_the_loop_is_not_compared(self) -> None:
        ways = [json.dumps(["http1.py:http1", *below, "runners.py:_serve_http_1"]).encode() for below in ([], ["runners.py:_run_server_forever"])]
        # Once as it is, once as a string of JSON in JSON.
        self.assertEqual(*map(wire.steady, ways))
        self.assertEqual(*(wire.steady(json.dumps(way.decode()).encode()) for way in ways))


if __name__ == "__main__":
    unittest.main()
