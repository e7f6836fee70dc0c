"""A process that serves one drawn exchange for each line of its input, and prints what the server
and the application saw of it; with the word `recorded`, under dashcam.

For test_drawn_bodies_pass_unchanged.py. An exchange is a dict of JSON; its keys are the fields that
`wsgi` and `asgi` read.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import sys
import traceback
from typing import Any, Callable, Iterator

EXCEPTIONS: dict[str, type[BaseException]] = {
    "ValueError": ValueError, "OSError": OSError, "StopIteration": StopIteration, "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit, "GeneratorExit": GeneratorExit,
}
# What a server may ask a body for.
ASKED = ("__len__", "__length_hint__", "__getitem__", "__bool__", "__contains__", "__iter__", "__next__", "__aiter__",
         "__await__", "__call__", "__enter__", "close", "fileno", "read", "send", "throw", "gi_frame")


class Log(list[Any]):
    """What happened, in order."""

    def failure(self, what: str, error: BaseException) -> None:
        """An exception, with the functions that it came through."""
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        self.append([what, type(error).__name__, str(error), frames, repr(error.__context__)])


def body_of(drawn: dict[str, Any], log: Log) -> Any:
    """The body of a response: a list, a generator, or an object with the methods that were drawn."""
    chunks = [chunk.encode() for chunk in drawn["chunks"]]

    def produced() -> Iterator[bytes]:
        try:
            for at, chunk in enumerate(chunks):
                log.append(["asked", at])
                if drawn["fails_at"] == at:
                    raise EXCEPTIONS[drawn["fails_with"]]("drawn")
                yield chunk
        finally:
            log.append("left")

    if drawn["kind"] in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[drawn["kind"]](chunks)
    if drawn["kind"] == "generator":
        return produced()
    source = produced()
    methods: dict[str, Callable[..., Any]] = {"__iter__": lambda self: self if "__next__" in methods else source}
    if drawn["kind"] == "iterator":
        methods["__next__"] = lambda self: next(source)
    answers = {"__len__": len(chunks), "__length_hint__": len(chunks), "__bool__": True, "__contains__": False,
               "fileno": 99, "read": b"", "__call__": None}
    for name in drawn["methods"]:
        methods[name] = lambda self, *words, answer=answers[name], name=name: (log.append(name), answer)[1]

    def close(self: Any) -> None:
        log.append("closed")
        if drawn["close"] == "raises":
            raise RuntimeError("close")

    if drawn["close"]:
        methods["close"] = close
    return type("Body", (), methods)()


def wsgi(drawn: dict[str, Any], log: Log) -> None:
    """One exchange of wsgiref, of Flask, or of a server by hand that takes a part of the body."""
    from wsgiref.handlers import SimpleHandler
    from wsgiref.util import setup_testing_defaults

    import flask

    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        log.append("called")
        if drawn["fails_before"]:
            raise EXCEPTIONS[drawn["fails_with"]]("before")
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        if drawn["writes"]:
            write(b"written")
        return body_of(drawn, log)

    def by_hand(environ: dict[str, Any], call: Any) -> None:
        def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
            log.append([status, len(headers)])
            return lambda data: log.append(data.decode())

        body = call(environ, start_response)
        log.append([name for name in ASKED if hasattr(type(body), name)])
        log.append([name for name in ASKED if hasattr(body, name)])
        log.append([type(body).__name__, callable(body), isinstance(body, (list, tuple)), repr(body)[:9]])
        for _, chunk in zip(range(drawn["taken"]), body):
            log.append(chunk.decode())
        if hasattr(body, "close"):
            body.close()

    try:
        if drawn["server"] == "wsgiref":
            out = io.BytesIO()
            errors = io.StringIO()
            handler = SimpleHandler(io.BytesIO(), out, errors, environ, multithread=False)
            handler.origin_server = False  # no Date
            handler.run(application)
            log.append(out.getvalue().decode())
            log.append([line for line in errors.getvalue().splitlines() if line[:1] != " "])
        elif drawn["server"] == "flask":
            app = flask.Flask("drawn")
            app.logger.disabled = True
            app.route("/")(lambda: (log.append("view"), flask.Response(body_of(drawn, log)))[1])
            by_hand(environ, app)
        else:
            by_hand(environ, application)
    except BaseException as error:  # noqa: BLE001 - what the server sees
        log.failure("raised", error)


def asgi(drawn: dict[str, Any], log: Log) -> None:
    """One exchange of Starlette: a streamed reply whose client may go away."""
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def chunks() -> Any:
        try:
            for at, chunk in enumerate(drawn["chunks"]):
                if drawn["fails_at"] == at:
                    raise EXCEPTIONS[drawn["fails_with"]]("drawn")
                yield chunk
                await asyncio.sleep(0)
        finally:
            log.append("left")

    async def after() -> None:
        log.append("background")

    async def endpoint(request: Any) -> Any:
        log.append("called")
        if drawn["fails_before"]:
            raise EXCEPTIONS[drawn["fails_with"]]("before")
        return StreamingResponse(chunks(), background=BackgroundTask(after) if drawn["writes"] else None)

    sent = 0

    async def send(message: Any) -> None:
        nonlocal sent
        sent += 1
        log.append([message["type"], message.get("status"), message.get("body", b"").decode(), message.get("more_body")])
        if drawn["close"] == "raises" and sent > drawn["taken"]:
            raise OSError("gone")

    async def receive() -> Any:
        if sent <= drawn["taken"]:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"} if sent > drawn["taken"] else {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "root_path": "", "query_string": b"",
             "headers": [], "http_version": "1.1", "scheme": "http", "asgi": {"version": "3.0", "spec_version": "2.3"},
             "client": ["127.0.0.1", 1], "server": ["127.0.0.1", 2]}
    app = Starlette(routes=[Route("/", endpoint)])
    try:
        asyncio.run(app(scope, receive, send))
    except BaseException as error:  # noqa: BLE001 - what the server sees
        log.failure("raised", error)


def main() -> None:
    """Serves until its input ends."""
    if "recorded" in sys.argv:
        import dashcam

        dashcam.start(slow="60s", memory="4MiB", out="captures", at_exit="never")
    # Garbage is collected between exchanges only. CPython 3.11 raises SystemError from `ast.parse`, as
    # werkzeug calls it, if a collection in the midst of it logs the error of a task.
    gc.disable()
    for line in sys.stdin:
        drawn, log = json.loads(line), Log()
        (asgi if drawn["server"] == "asgi" else wsgi)(drawn, log)
        print(json.dumps(log), flush=True)
        gc.collect(1)
    if "recorded" in sys.argv:
        status = dashcam.status()
        print(json.dumps([status["requests"], status["integrations"], status["open_requests"]]), flush=True)


if __name__ == "__main__":
    main()
