"""For tests: as much of PostgreSQL's protocol 3.0 as a client needs to run a query, simple or
extended. `select broken` fails; every other select has one row, `answer` = 42."""

from __future__ import annotations

import socket
import struct
import threading

_TLS, _GSS, _CANCEL = 80877103, 80877104, 80877102


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


_COLUMN = _message(b"T", struct.pack("!h", 1) + b"answer\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 0))
_ROW = _message(b"D", struct.pack("!hi", 1, 2) + b"42")
_SETTINGS = {"server_version": "15.0", "client_encoding": "UTF8", "standard_conforming_strings": "on",
             "DateStyle": "ISO, MDY", "TimeZone": "UTC", "integer_datetimes": "on"}


class TinyPostgres:
    """A port that answers; `queries` are the texts that arrived."""

    def __init__(self) -> None:
        self.queries: "list[str]" = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """No new connections."""
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while True:
                size, code = struct.unpack("!ii", stream.read(8))
                stream.read(size - 8)
                if code == _CANCEL:
                    return
                if code not in (_TLS, _GSS):
                    break
                connection.sendall(b"N")
            reported = b"".join(_message(b"S", f"{k}\0{v}\0".encode()) for k, v in _SETTINGS.items())
            connection.sendall(_message(b"R", struct.pack("!i", 0)) + reported
                               + _message(b"K", struct.pack("!ii", 1, 1)) + _message(b"Z", b"I"))
            self._queries(connection, stream)

    def _queries(self, connection: socket.socket, stream: "object") -> None:
        status, query, failed = b"I", "", False
        while head := stream.read(5):  # type: ignore[attr-defined]
            body = stream.read(struct.unpack("!i", head[1:])[0] - 4)  # type: ignore[attr-defined]
            kind, answer = head[:1], b""
            if kind == b"X":
                return
            if kind == b"Q":
                query = body[:-1].decode()
                status, answer = self._answer(query, status, True)
                answer += _message(b"Z", status)
            elif kind == b"P":
                query = body.split(b"\0")[1].decode()
                answer = _message(b"1", b"")
            elif kind == b"S":
                failed, answer = False, _message(b"Z", status)
            elif failed:
                continue
            elif kind == b"B":
                answer = _message(b"2", b"")
            elif kind == b"D":
                answer = _COLUMN if query.startswith("select") else _message(b"n", b"")
            elif kind == b"E":
                status, answer = self._answer(query, status, False)
                failed = answer[:1] == b"E"
            connection.sendall(answer)

    def _answer(self, query: str, status: bytes, described: bool) -> "tuple[bytes, bytes]":
        """The transaction's status after it, and the answer."""
        self.queries.append(query)
        word = query.split()[0].lower()
        if "broken" in query:
            fields = b"SERROR\0VERROR\0C42P01\0Mrelation \"broken\" does not exist\0\0"
            return (b"E" if status == b"T" else status), _message(b"E", fields)
        if word == "begin":
            return b"T", _message(b"C", b"BEGIN\0")
        if word in ("commit", "rollback"):
            return b"I", _message(b"C", word.upper().encode() + b"\0")
        rows = (_COLUMN if described else b"") + _ROW
        return status, rows + _message(b"C", b"SELECT 1\0")
