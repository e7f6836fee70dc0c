"""WSGI bodies of every kind, each of which records how it is used. `application` serves the kind
that the path names.

The kinds combine: what a body is (an iterator, something iterable, something with `__getitem__`
only), what else it has (`__len__`, `__length_hint__`, `close`), where it fails, how
`start_response` is called.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import socket
import sys
import tempfile
import time
from typing import Any, Callable, Iterable

from noting import frames, kinds, note, stack, threads

CHUNKS = [b"first ", b"", b"second ", b"x" * 3000, b" last"]
# Copied for each call: servers change the list.
PLAIN = [("Content-Type", "text/plain")]
LENGTH = [*PLAIN, ("Content-Length", str(sum(map(len, CHUNKS))))]


class _Asked:
    """The base of all bodies: records attributes that are requested and missing."""

    def __init__(self, case: str, fails_at: int = -1) -> None:
        self.case, self.at, self.fails_at = case, 0, fails_at

    def __getattr__(self, name: str) -> Any:
        note(self.__dict__.get("case", ""), "asked for", name)
        raise AttributeError(name)

    def _chunk(self) -> bytes:
        note(self.case, "chunk", self.at, threads())
        if self.at == self.fails_at:
            raise LookupError(f"chunk {self.at}")
        if self.at == len(CHUNKS):
            raise StopIteration
        self.at += 1
        return CHUNKS[self.at - 1]


def _iterates(self: Any) -> Any:
    note(self.case, "__iter__")
    return self


def _iterates_anew(self: Any) -> Any:
    note(self.case, "__iter__")
    return iter(CHUNKS)


def _item(self: Any, at: int) -> bytes:
    note(self.case, "__getitem__", at)
    return CHUNKS[at]


def _next(self: Any) -> bytes:
    return bytes(self._chunk())


def _one(self: Any) -> int:
    note(self.case, "__len__")
    return 1 if self.at == 0 else len(CHUNKS)


def _hint(self: Any) -> int:
    note(self.case, "__length_hint__")
    return len(CHUNKS)


def _close(self: Any) -> None:
    note(self.case, "close", stack())


def _close_fails(self: Any) -> None:
    note(self.case, "close")
    raise ValueError("closing")


def _false(self: Any) -> bool:
    note(self.case, "__bool__")
    return False


BASES: dict[str, dict[str, Any]] = {
    "iterator": {"__iter__": _iterates, "__next__": _next},
    "iterable": {"__iter__": _iterates_anew},
    "items": {"__getitem__": _item},
}
MORE: dict[str, dict[str, Any]] = {
    "length": {"__len__": _one},
    "hint": {"__length_hint__": _hint},
    "close": {"close": _close},
}


def _made(case: str, name: str, *parts: dict[str, Any], fails_at: int = -1) -> Any:
    members = {key: value for part in parts for key, value in part.items()}
    return type(name, (_Asked,), members)(case, fails_at)


Kind = Callable[[str, Any, Any], Iterable[bytes]]
KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Kind], Kind]:
    """Registers a body under its name."""

    def enter(made: Kind) -> Kind:
        KINDS[name] = made
        return made

    return enter


def _simple(make: Callable[[str], Any], headers: Any = PLAIN, status: str = "200 OK") -> Kind:
    def call(case: str, environ: Any, start_response: Any) -> Any:
        note(case, "start_response gives", kinds(start_response(status, list(headers))))
        return make(case)

    return call


def _generator(case: str, fails_at: int = -1) -> Any:
    try:
        for at, chunk in enumerate(CHUNKS):
            note(case, "chunk", at, stack())
            if at == fails_at:
                raise LookupError(f"chunk {at}")
            yield chunk
    except GeneratorExit as error:
        note(case, "left", frames(error))
        raise
    finally:
        note(case, "finally")


def _file(size: int) -> Any:
    file = tempfile.TemporaryFile()
    file.write(b"0123456789" * (size // 10))
    file.seek(0)
    return file


for base, extra in itertools.product(BASES, range(8)):
    chosen = [name for bit, name in enumerate(MORE) if extra >> bit & 1]
    parts = [BASES[base], *(MORE[name] for name in chosen)]
    KINDS["+".join([base, *chosen])] = _simple(lambda case, base=base, parts=parts: _made(case, base, *parts))
for where in (0, 1, 3):
    KINDS[f"iterator that fails at {where}"] = _simple(
        lambda case, where=where: _made(case, "failing", BASES["iterator"], MORE["close"], fails_at=where))
    KINDS[f"generator that fails at {where}"] = _simple(lambda case, where=where: _generator(case, where))
KINDS.update({
    "list": _simple(lambda case: list(CHUNKS)),
    "list with its length": _simple(lambda case: list(CHUNKS), LENGTH),
    "list of one": _simple(lambda case: [b"only"]),
    "empty list": _simple(lambda case: []),
    "tuple": _simple(lambda case: tuple(CHUNKS)),
    "generator": _simple(_generator),
    "generator with its length": _simple(_generator, LENGTH),
    "generator, length too small": _simple(_generator, [*PLAIN, ("Content-Length", "5")]),
    "generator, length too large": _simple(_generator, [*PLAIN, ("Content-Length", "9999")]),
    "empty generator": _simple(lambda case: (chunk for chunk in ())),
    "map": _simple(lambda case: map(bytes, CHUNKS)),
    "iterator of a list": _simple(lambda case: iter(CHUNKS)),
    "false": _simple(lambda case: _made(case, "false", BASES["iterator"], {"__bool__": _false})),
    "close fails": _simple(lambda case: _made(case, "closing", BASES["iterator"], {"close": _close_fails})),
    "bytes": _simple(lambda case: b"ab"),
    "text": _simple(lambda case: ["text"]),
    "text in a generator": _simple(lambda case: iter([b"a", "text"])),
    "number": _simple(lambda case: 7),
    "none": _simple(lambda case: None),
    "file": _simple(lambda case: _file(50)),
    "memory": _simple(lambda case: io.BytesIO(b"in memory\n" * 3)),
    "no content": _simple(lambda case: [], [], "204 No Content"),
    "not modified": _simple(_generator, [], "304 Not Modified"),
    "failure": _simple(_generator, PLAIN, "503 Gone For Now"),
    "bad status": _simple(_generator, PLAIN, "abc"),
    "large": _simple(lambda case: (b"y" * 10_000 for _ in range(50))),
    # More than a connection's buffers hold: the server notices that the client has left.
    "very large": _simple(lambda case: (b"y" * 100_000 for _ in range(1000))),
})


def _is_connected() -> bool:
    """Whether this process has a socket of TCP that does not listen: it has not closed a connection."""
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(descriptor))) as one:
            if one.family == socket.AF_INET and not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return True
    return False


@kind("after the client has left")
def _after_the_client(case: str, environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [*PLAIN])

    def parts() -> Iterable[bytes]:
        yield b"first"
        while _is_connected():
            time.sleep(0.001)
        for _ in range(40):
            yield b"x" * 100
        note(case, "sent all")

    return parts()


@kind("file wrapper")
def _wrapped(case: str, environ: Any, start_response: Any) -> Any:
    wrapper = environ.get("wsgi.file_wrapper")
    note(case, "wrapper", None if wrapper is None else kinds(wrapper))
    start_response("200 OK", [*PLAIN, ("Content-Length", "40000")])
    return (wrapper or list)(_file(40_000))


@kind("file wrapper of bytes")
def _wrapped_bytes(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    body = (environ.get("wsgi.file_wrapper") or list)(io.BytesIO(b"bytes " * 500))
    note(case, "body", kinds(body), isinstance(body, environ.get("wsgi.file_wrapper", list)))
    return body


@kind("write")
def _writes(case: str, environ: Any, start_response: Any) -> Any:
    write = start_response("200 OK", list(PLAIN))
    note(case, "written", write(b"written "), write(b"twice "))
    return [b"returned"]


@kind("write, then fail")
def _writes_and_fails(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))(b"written ")
    raise LookupError("after a write")


@kind("raises")
def _raises(case: str, environ: Any, start_response: Any) -> Any:
    raise LookupError("at once")


@kind("starts and raises")
def _starts_and_raises(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    raise LookupError("once started")


@kind("starts twice")
def _starts_twice(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    try:
        start_response("201 Created", list(PLAIN))
    except Exception as error:  # noqa: BLE001
        note(case, "refused", frames(error))
        raise
    return [b"twice"]


@kind("starts again with an error")
def _starts_again(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    try:
        raise LookupError("to be reported")
    except LookupError:
        start_response("500 Sorry", list(PLAIN), sys.exc_info())
    return [b"an error page"]


@kind("starts by keyword")
def _by_keyword(case: str, environ: Any, start_response: Any) -> Any:
    try:
        start_response(status="200 OK", response_headers=list(PLAIN))
    except TypeError as error:
        note(case, "refused", frames(error))
        start_response("200 OK", list(PLAIN))
    return [b"named"]


@kind("starts late")
def _starts_late(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    yield b"late"


@kind("never starts")
def _never_starts(case: str, environ: Any, start_response: Any) -> Any:
    return [b"never"]


@kind("starts wrongly")
def _starts_wrongly(case: str, environ: Any, start_response: Any) -> Any:
    for bad in ((), ("200 OK",), (200, list(PLAIN)), ("200 OK", "x"), ("200 OK", [("a", 1)])):
        try:
            note(case, "taken", bad, kinds(start_response(*bad)))
        except Exception as error:  # noqa: BLE001
            note(case, "refused", bad, frames(error))
    return [b"wrongly"]


@kind("echo")
def _echo(case: str, environ: Any, start_response: Any) -> Any:
    start_response("200 OK", list(PLAIN))
    return [environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))]


def application(environ: Any, start_response: Any) -> Any:
    """The application."""
    case = environ.get("HTTP_X_CASE", "")
    # Some servers put the process's environment into it, and so the settings of `dashcam run`.
    items = sorted((str(k), type(v).__name__) for k, v in environ.items() if not str(k).startswith("DASHCAM_"))
    note(case, "environ", type(environ).__name__, items)
    note(case, "start_response", kinds(start_response))
    note(case, "called from", stack(), threads())
    made = KINDS.get(environ["PATH_INFO"].strip("/").replace("_", " "))
    if made is None:
        start_response("200 OK", list(PLAIN))
        return [b"ready"]
    return made(case, environ, start_response)
