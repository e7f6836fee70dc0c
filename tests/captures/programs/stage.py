"""Runs the zoo's `answer(n)` behind servers that the zoo itself does not use, and holds the
defects.

A program here is a server and a defect, by name: `<server>_<defect>/program.py` is two lines. The
n-th request is slow where `n % EVERY == 0`; with `healthy` as an argument no request is.
"""

from __future__ import annotations

import itertools
import os
import socket
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "zoo"))
import service  # noqa: E402

EVERY = 40
PORT = service.PORT
Answer = Callable[[int], str]


def is_due(n: int) -> bool:
    """Whether this request shows the defect."""
    return service.SICK and n % EVERY == 0


def in_background(work: Callable[[], None]) -> None:
    """Runs for as long as the program."""
    threading.Thread(target=work, daemon=True, name=work.__name__).start()


def late_peer(delay_s: float) -> "tuple[str, int]":
    """A peer on a port of its own, in another process: answers a line with a line, late on
    request.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = ("127.0.0.1", probe.getsockname()[1])
    if os.fork() == 0:

        class Peer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while line := self.rfile.readline():
                    time.sleep(delay_s if line == b"late\n" else 0.001)
                    self.wfile.write(b"done\n")

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        parent = os.getppid()
        in_background_until_orphaned(parent)
        Server(address, Peer).serve_forever()
    return address


def in_background_until_orphaned(parent: int) -> None:
    """Ends this process with its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(0)

    in_background(watch)


def waitress(answer: Answer) -> None:
    """waitress, six threads."""
    import waitress as server

    server.serve(service.wsgi(answer), host="127.0.0.1", port=PORT, threads=6)


def cheroot(answer: Answer) -> None:
    """cheroot, six threads."""
    from cheroot.wsgi import Server

    Server(("127.0.0.1", PORT), service.wsgi(answer), numthreads=6).start()


def gevent(answer: Answer) -> None:
    """gunicorn's worker of greenlets."""
    service.gunicorn(answer, "gevent")


def hypercorn(answer: "Callable[[int], Any]") -> None:
    """hypercorn on asyncio, an ASGI application."""
    import asyncio

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    count = itertools.count(1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await answer(next(count))).encode()
        head = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    config = Config()
    config.bind = [f"127.0.0.1:{PORT}"]
    asyncio.run(serve(app, config))


def aiohttp(answer: "Callable[[int], Any]", *background: "Callable[[], Any]") -> None:
    """aiohttp.web."""
    import asyncio

    from aiohttp import web

    count = itertools.count(1)

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=await answer(next(count)))

    async def begin(app: web.Application) -> None:
        app["tasks"] = [asyncio.ensure_future(start()) for start in background]

    app = web.Application()
    app.add_routes([web.get("/", page)])
    app.on_startup.append(begin)
    web.run_app(app, host="127.0.0.1", port=PORT, print=lambda *_: None)


def tornado(answer: "Callable[[int], Any]") -> None:
    """Tornado."""
    import asyncio

    from tornado.web import Application, RequestHandler

    count = itertools.count(1)

    class Page(RequestHandler):
        async def get(self) -> None:
            self.write(await answer(next(count)))

    async def main() -> None:
        Application([("/", Page)]).listen(PORT, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


def celery(answer: Answer) -> None:
    """A Celery worker of four threads; a listener in the same process sends it a task for each
    request.
    """
    from celery import Celery

    app, count = Celery("shop", broker="memory://", backend="cache+memory://"), itertools.count(1)
    app.conf.update(
        broker_transport_options={"polling_interval": 0.005}, worker_hijack_root_logger=False
    )
    done: "dict[int, threading.Event]" = {}

    @app.task(name="shop.work")
    def work(n: int) -> str:
        try:
            return answer(n)
        finally:
            done.pop(n).set()

    class Desk(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            while self.rfile.readline():
                while self.rfile.readline() > b"\r\n":
                    pass
                n = next(count)
                ended = done[n] = threading.Event()
                work.delay(n)
                ended.wait()
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    class Listener(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    in_background(Listener(("127.0.0.1", PORT), Desk).serve_forever)
    app.worker_main(["worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "ERROR"])
