"""What the sick programs share: small multi-threaded services of several kinds.

A program gives a function `answer(n)` that is called for the n-th request and returns text; `serve`
runs it behind one of the servers below, on the port in the environment. Only `streams` and the
queue's jobs use dashcam.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import queue
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Awaitable, Callable, Iterable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

Answer = Callable[[int], str]
PORT = int(os.environ.get("PORT", "8090"))
# The target of /etc/resolv.conf for a case that needs a mount namespace (cases.py).
NAMESERVER = f"127.53.{PORT >> 8}.{PORT & 255}"
SICK = "healthy" not in sys.argv[1:]


def plain(answer: Answer) -> None:
    """http.server, a thread for each connection."""
    count = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            body = answer(next(count)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    server.daemon_threads = True
    server.serve_forever()


def wsgi(answer: Answer) -> Callable[[Any, Any], Iterable[bytes]]:
    """A WSGI application."""
    count = itertools.count(1)

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        body = answer(next(count)).encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]

    return application


def reference(answer: Answer) -> None:
    """wsgiref's server, a thread for each request."""

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    make_server("127.0.0.1", PORT, wsgi(answer), Server, Quiet).serve_forever()


def streams(answer: "Callable[[int], Awaitable[str]]", *background: "Callable[[], Any]") -> None:
    """asyncio's streams, a task for each connection. Nothing else knows where a request begins
    here, so it is marked, if dashcam is installed."""
    count = itertools.count(1)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                while await reader.readline() > b"\r\n":
                    pass
                with marked(f"GET {line.split()[1].decode()}"):
                    body = (await answer(next(count))).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        writer.close()

    async def main() -> None:
        tasks = [asyncio.ensure_future(start()) for start in background]
        async with await asyncio.start_server(converse, "127.0.0.1", PORT) as server:
            await server.serve_forever()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def marked(name: str) -> "contextlib.AbstractContextManager[Any]":
    """Marks a request by hand."""
    try:
        import dashcam
    except ImportError:
        return contextlib.nullcontext()
    return dashcam.request(name)


def flask(answer: Answer) -> None:
    """Flask's own server, a thread for each request."""
    import logging

    from flask import Flask

    app, count = Flask("shop"), itertools.count(1)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    @app.get("/")
    def page() -> str:
        return answer(next(count))

    app.run("127.0.0.1", PORT, threaded=True)


def gunicorn(
    answer: Answer, kind: str = "gthread", begin: "Callable[[], Any] | None" = None
) -> None:
    """gunicorn, one worker of eight threads (or the sync worker), started from within; `begin` is
    called in the worker."""
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self) -> None:
            self.cfg.set("bind", f"127.0.0.1:{PORT}")
            self.cfg.set("worker_class", kind)
            self.cfg.set("threads", 8)
            self.cfg.set("graceful_timeout", 1)
            self.cfg.set("loglevel", "warning")
            self.cfg.set("post_worker_init", lambda worker: ready())

        def load(self) -> Any:
            if begin:
                begin()
            return wsgi(answer)

    Application().run()


def ready() -> None:
    """Reports that requests will be taken, if the parent process asked for it: gunicorn's port is
    open long before, on a busy machine."""
    if path := os.environ.get("ZOO_READY"):
        with open(path, "w", encoding="ascii"):
            pass


def fastapi(
    answer: "Callable[[int], Any]", *background: "Callable[[], Any]", loop: str = "asyncio"
) -> None:
    """FastAPI behind uvicorn: a coroutine runs on the event loop, a function in its threads."""
    import uvicorn
    from fastapi import FastAPI

    count = itertools.count(1)

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> Any:
        tasks = [asyncio.ensure_future(start()) for start in background]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(lifespan=lifespan)
    if asyncio.iscoroutinefunction(answer):

        @app.get("/")
        async def page() -> str:
            return str(await answer(next(count)))
    else:

        @app.get("/")
        def page() -> str:
            return str(answer(next(count)))

    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", loop=loop)


def worker(answer: Answer, hands: int = 4) -> None:
    """Threads that take jobs from a queue, which a listener fills. Nothing else knows where a job
    begins, so it is marked, if dashcam is installed."""
    count, jobs = itertools.count(1), queue.SimpleQueue()  # type: ignore[var-annotated]

    def hand() -> None:
        while True:
            n, done = jobs.get()
            with marked("job"):
                done.put(answer(n))

    class Desk(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            done: "queue.SimpleQueue[str]" = queue.SimpleQueue()
            with contextlib.suppress(ConnectionError):
                while self.rfile.readline():
                    while self.rfile.readline() > b"\r\n":
                        pass
                    jobs.put((next(count), done))
                    body = done.get().encode()
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                    self.wfile.write(head + body)

    class Listener(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 64

    for _ in range(hands):
        threading.Thread(target=hand, daemon=True).start()
    Listener(("127.0.0.1", PORT), Desk).serve_forever()


def honest_work(n: int) -> int:
    """Work of every request: a little computing."""
    return sum(i * i for i in range(2000 + n % 7))
