"""The client's side of an exchange, byte by byte, and the removal of varying values before the
comparison.

A client that leaves waits until the server has closed its end, too: what the server does about it
belongs to this exchange, and the server may be ended after the last one.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import struct
import time
from pathlib import Path

# Far longer than an exchange takes on a busy machine.
PATIENCE_S = 20.0

# Values that differ from run to run, and their replacements.
_CHANGING = [
    (re.compile(rb"(?i)(date|expires|last-modified): [^\r\n]*"), rb"\1: DATE"),
    (re.compile(rb"0x[0-9a-f]{6,16}"), b"0xADDRESS"),
    (re.compile(rb"127\.0\.0\.1[:', ]+\d{4,5}|localhost:\d{4,5}|port=\d+|PORT': '\d+"), b"ADDRESS"),
    (re.compile(rb"\d\d/\w\w\w/\d{4}[: ]\d\d:\d\d:\d\d( [+-]\d{4})?"), b"TIME"),
    (re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,]\d+)?( ?[+-]\d{4})?"), b"TIME"),
    (re.compile(rb"[A-Z][a-z]+ \d\d?, \d{4} - \d\d:\d\d:\d\d"), b"TIME"),
    # Written when a thread was not fast enough: by waitress for a request that had to wait, by
    # granian for a client that closed before the response was complete.
    (re.compile(rb"(?m)^[^\n]*Task queue depth is \d+\n"), b""),
    (re.compile(rb"(?m)^[^\n]*ASGI transport error: \"Closed\(\.\.\)\"\n"), b""),
    # Written by asyncio for each part of a response whose client has left, and by Sanic if it read
    # the client's end before it closed the connection.
    (re.compile(rb"(?m)^socket\.send\(\) raised exception\.\n"), b""),
    (re.compile(rb"(?m)^[^\n]*(INFO: |sanic\.websockets discard )connection closed\n"), b""),
    # Sanic's first request may be served while the server still starts.
    (re.compile(rb", \\?\"runners\.py:_run_server_forever\\?\""), b""),
    # eventlet's hub goes on with a connection from a timer, or from the poll if the request was not
    # there yet; the latter also removes the descriptor.
    (re.compile(rb"(?m)^  File \"[^\n]*/eventlet/hubs/\w+\.py\", line \d+, in \w+\n(    [^\n]*\n)+"), b""),
    (re.compile(rb"(?m)^Removing descriptor: \d+\n"), b""),
    (re.compile(rb"\b\d+\.\d+ ?ms\b|\b\d+\.\d{2,}s?\b"), b"SECONDS"),
    (re.compile(rb"(?i)\bpid[ :=]+\d+|\[\d{2,7}\]|process \d+|pid: \d+|\(\d{2,7}\)(?=\n)"), b"PID"),
    (re.compile(rb"Thread-\d+|Dummy-\d+|_\d+ \(|(?:ThreadPoolExecutor-\d+|asyncio)_\d+|waitress-\d+|(?:CP Server )?Thread \d+"),
     b"THREAD"),
    # Whether a thread's result is there when it is asked for.
    (re.compile(rb"(concurrent/futures/_base\.py\\?\", line )\d+(, in result)"), rb"\1N\2"),
    (re.compile(rb"Task-\d+"), b"TASK"),
    (re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), b"ID"),
    # Any thread of uWSGI may take a request; below the first one's calls is the program itself. The
    # time in its log is that of `date`, and its applications are ready in whole seconds.
    (re.compile(rb", \\?\"uwsgi_server\.py:<module>\\?\""), b""),
    (re.compile(rb"uWSGIWorker1Core\d"), b"THREAD"),
    (re.compile(rb"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"), b"TIME"),
    (re.compile(rb"ready in \d+ seconds"), b"ready"),
    # The number depends on how soon the previous connection was closed.
    (re.compile(rb"socket at 0xADDRESS object, fd=\d+"), b"socket"),
    # How much was sent to a client that has left.
    (re.compile(rb"/very_large HTTP/1.1\" 200 \d+"), b"/very_large BYTES"),
    (re.compile(rb"/tmp/[\w./-]+"), b"FOLDER"),
]


def steady(said: bytes) -> bytes:
    """The text without values that differ from run to run."""
    for changing, name in _CHANGING:
        said = changing.sub(name, said)
    return said


def _receive(connection: socket.socket, enough: int = 1 << 30) -> bytes:
    got = b""
    try:
        while len(got) < enough:
            part = connection.recv(65536)
            if not part:
                return got
            got += part
    except socket.timeout:
        return got + b"\n<nothing more came>"
    except ConnectionError as error:
        return got + f"\n<{type(error).__name__}>".encode()
    return got


def exchange(port: int, request: bytes, leaves_after: int = 0) -> bytes:
    """A server's answer, until it closes; all of it has arrived before this returns."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(request)
        if not leaves_after:
            return steady(_receive(connection))
        got = _receive(connection, leaves_after)[:leaves_after]
        ends = _ends_of(port, connection.getsockname()[1])
    return got if _closed(ends) else got + b"\n<the server keeps the connection>"


def _ends_of(port: int, client: int) -> set[str]:
    """A server's end of a connection, as its descriptors name it."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    ports = f":{port:04X}", f":{client:04X}"
    return {f"socket:[{row[9]}]" for row in rows if (row[1][-5:], row[2][-5:]) == ports}


def _closed(ends: set[str]) -> bool:
    """Waits until no process has these descriptors. False: one keeps them for good."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if not ends & _descriptors():
            return True
        time.sleep(0.02)
    return False


def _descriptors() -> set[str]:
    """What all processes have open."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found


def request(case: str, path: str, method: str = "GET", body: bytes = b"", version: str = "1.1", last: bool = True) -> bytes:
    """A request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", f"X-Case: {case}"]
    lines += ["Connection: close" if last else "Connection: keep-alive"]
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode() + body


# The end with its code, which fills a frame of four bytes.
_RESET_BEHIND_THE_END = re.compile(rb"(?s)(\x88\x02..)(\n<\w+>)+\Z")


def _frame(kind: int, payload: bytes) -> bytes:
    mask = b"\1\2\3\4"
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([0x80 | kind, 0x80 | len(payload)]) + mask + masked


def websocket(port: int, case: str, path: str, *texts: str) -> bytes:
    """A conversation: each text is sent once the answer to the previous one has arrived, then the
    end is.
    """
    key = base64.b64encode(b"0123456789abcdef").decode()
    asked = (f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Case: {case}\r\nUpgrade: websocket\r\n"
             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(asked)
        got = b""
        while b"\r\n\r\n" not in got:
            part = connection.recv(4096)
            if not part:
                return steady(got)
            got += part
        if b" 101 " not in got.split(b"\r\n")[0]:
            return steady(got + _receive(connection))
        try:
            for text in texts:
                connection.sendall(_frame(1, text.encode()))
                answer = connection.recv(4096)
                got += answer
                if not answer or answer[0] & 0xF == 8:
                    return steady(got)
            connection.sendall(_frame(8, struct.pack(">H", 1000)))
        except ConnectionError as error:
            got += f"\n<{type(error).__name__}>".encode()
        return steady(_said(got + _receive(connection)))


def _said(got: bytes) -> bytes:
    """A conversation without its reset behind the server's end: whether the server had read ours by
    then depends on timing.
    """
    return _RESET_BEHIND_THE_END.sub(rb"\1", got)


# type: ignore[valid-type]
def answers(port: int, alive: "callable[[], bool]", seconds: float = 60.0) -> bool:
    """Waits until a server listens. False: it has ended, or is not ready in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and alive():  # type: ignore[operator]
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def quiet(path: str, seconds: float = 0.6) -> None:
    """Waits until a file has not grown for a while."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        now = os.path.getsize(path) if os.path.exists(path) else 0
        if now != size:
            size, since = now, time.monotonic()
        time.sleep(0.05)
