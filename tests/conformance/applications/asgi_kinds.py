"""ASGI applications of every kind; `application` does what the path names."""

from __future__ import annotations

import asyncio
import gc
import traceback
from typing import Any, Awaitable, Callable

from noting import frames, kinds, note, stack, threads

PLAIN = [(b"content-type", b"text/plain")]
Kind = Callable[[str, Any, Any, Any], Awaitable[None]]
KINDS: dict[str, Kind] = {}
_kept: set[Any] = set()


def kind(made: Kind) -> Kind:
    """Registers an application under its function's name."""
    KINDS[made.__name__.strip("_")] = made
    return made


def _start(status: int = 200, headers: Any = PLAIN) -> Any:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _body(body: bytes = b"", more: bool = False) -> Any:
    return {"type": "http.response.body", "body": body, "more_body": more}


@kind
async def plain(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    await send(_body(b"plain"))


@kind
async def asks(case: str, scope: Any, receive: Any, send: Any) -> None:
    first = send(_start())
    note(case, "of start", kinds(first), type(first).__name__)
    await first
    last = send(_body(b"asked"))
    note(case, "of the last", kinds(last), hasattr(last, "cr_frame"), hasattr(last, "cr_await"), last.cr_code.co_name)
    note(case, "gives", await last)
    note(case, "again", send == send, hash(send) == hash(send), send != 5, {send: 1}[send])


@kind
async def streams(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    for part in range(5):
        await send(_body(b"part %d " % part, True))
        await asyncio.sleep(0)
    await send(_body())


@kind
async def in_tasks(case: str, scope: Any, receive: Any, send: Any) -> None:
    await asyncio.create_task(send(_start()))
    await asyncio.gather(send(_body(b"a", True)))
    await asyncio.wait_for(send(_body(b"b")), 5)


@kind
async def keywords(case: str, scope: Any, receive: Any, send: Any) -> None:
    for call in (lambda: send(message=_start()), lambda: send(), lambda: send(1, 2), lambda: send(nothing=1)):
        try:
            note(case, "taken", await call())
        except Exception as error:  # noqa: BLE001
            note(case, "refused", frames(error))
    await send(_body(b"named"))


@kind
async def no_body(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start(204, []))
    await send({"type": "http.response.body"})


@kind
async def fails_later(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start(503))
    await send(_body(b"gone"))


@kind
async def echoes(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send(_body(message.get("body", b""), more))


@kind
async def raises(case: str, scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(0)
    raise LookupError("before anything")


@kind
async def raises_once_started(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    raise LookupError("once started")


@kind
async def raises_in_the_middle(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    await send(_body(b"some", True))
    raise LookupError("in the middle")


@kind
async def raises_at_the_end(case: str, scope: Any, receive: Any, send: Any) -> None:
    await plain(case, scope, receive, send)
    raise LookupError("at the end")


@kind
async def goes_on(case: str, scope: Any, receive: Any, send: Any) -> None:
    await plain(case, scope, receive, send)
    await asyncio.sleep(0.01)
    note(case, "went on", stack())


@kind
async def leaves_a_task(case: str, scope: Any, receive: Any, send: Any) -> None:
    async def later() -> None:
        await asyncio.sleep(0.01)
        note(case, "later", threads())

    task = asyncio.ensure_future(later())
    _kept.add(task)
    task.add_done_callback(_kept.discard)
    await plain(case, scope, receive, send)


@kind
async def says_nothing(case: str, scope: Any, receive: Any, send: Any) -> None:
    return


@kind
async def never_starts(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_body(b"x"))


@kind
async def starts_twice(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    await send(_start())


@kind
async def never_ends(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    await send(_body(b"some", True))


@kind
async def too_much(case: str, scope: Any, receive: Any, send: Any) -> None:
    await plain(case, scope, receive, send)
    await send(_body(b"more"))


@kind
async def odd_messages(case: str, scope: Any, receive: Any, send: Any) -> None:
    for odd in ({"type": "odd"}, {"type": 7}, {}, [], None, "x", {"type": "http.response.start"},
                {"type": "http.response.start", "status": "x"}, {"type": "http.response.body", "body": 5}):
        try:
            note(case, "taken", odd, await send(odd))
        except BaseException as error:  # noqa: BLE001
            note(case, "refused", odd, frames(error))
            if isinstance(error, asyncio.CancelledError):
                raise
    await plain(case, scope, receive, send)


@kind
async def drops_what_it_sends(case: str, scope: Any, receive: Any, send: Any) -> None:
    dropped = send(_start())
    del dropped  # never awaited: a warning
    gc.collect()
    await plain(case, scope, receive, send)


@kind
async def waits_for_the_end(case: str, scope: Any, receive: Any, send: Any) -> None:
    await send(_start())
    await send(_body(b"some", True))
    message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
    note(case, "disconnected", message)


@kind
async def shows_its_stack(case: str, scope: Any, receive: Any, send: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    note(case, "task", [frame.f_code.co_name for frame in task.get_stack()], kinds(task.get_coro()))
    note(case, "context", [line.split(":")[0] for line in traceback.format_stack()][-3:])
    await plain(case, scope, receive, send)


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        note("", message)
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _websocket(case: str, scope: Any, receive: Any, send: Any) -> None:
    note(case, await receive())
    if scope["path"] == "/refused":
        await send({"type": "websocket.close", "code": 1000})
        return
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        note(case, message)
        if message["type"] == "websocket.disconnect":
            return
        if message.get("text") == "raise":
            raise LookupError("in a websocket")
        await send({"type": "websocket.send", "text": message.get("text") or "none"})


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The application."""
    case = dict(scope.get("headers", ())).get(b"x-case", b"").decode()
    note(case, "scope", type(scope).__name__, sorted((str(k), type(v).__name__) for k, v in scope.items()))
    note(case, "send", kinds(send), "receive", kinds(receive))
    note(case, "called from", stack(), threads())
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "websocket":
        await _websocket(case, scope, receive, send)
    else:
        await KINDS.get(scope["path"].strip("/"), plain)(case, scope, receive, send)
