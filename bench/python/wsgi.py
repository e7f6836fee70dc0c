"""The cost that recording adds to a WSGI request. gunicorn's worker with threads serves request after
request of one connection: its poller, its pool (whose work this thread does itself), its parser,
its `handle_request`, the application, the reply. CPU time of that thread, the client's part
included, the best of ten runs each. Rounds alternate; medians. Each variant is a process of its
own, since hooks cannot be removed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator

ROUNDS, RUNS, TIMES = 7, 10, 500
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Once:
    """A body of one part."""

    def __init__(self) -> None:
        self.left = [b"ok"]

    def __iter__(self) -> "Once":
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        return self.left.pop()

    def close(self) -> None:
        """As most bodies have one."""


def bare(environ: Any, start_response: Any) -> Once:
    """The smallest application."""
    start_response("200 OK", [("a", "b")])
    return Once()


def flask_app() -> Any:
    """One endpoint."""
    from flask import Flask

    app = Flask("bench")

    @app.get("/price/<sku>")
    def price(sku: str) -> dict[str, str]:
        return {"sku": sku}

    return app


def priced_app() -> Any:
    """The service of bench/services: one query, some text, JSON."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "services"))
    import flask_app as service

    return service.app


APPS: dict[str, Callable[[], Any]] = {"bare": lambda: bare, "flask": flask_app, "price": priced_app}
REQUEST = b"GET /price/5 HTTP/1.1\r\nHost: x\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"


class Pool(ThreadPoolExecutor):
    """A pool without threads: `step` does the work that was submitted."""

    def _adjust_thread_count(self) -> None:
        pass

    def step(self) -> None:
        """Does the oldest work."""
        self._work_queue.get_nowait().run()  # type: ignore[attr-defined]


def worker_of(app: Any) -> Any:
    """A worker of gunicorn with threads, as it is before its first connection."""
    from gunicorn.config import Config
    from gunicorn.glogging import Logger
    from gunicorn.workers.gthread import ThreadWorker

    class App:
        def wsgi(self) -> Any:
            return app

    config = Config()
    config.set("threads", 8)
    worker = ThreadWorker(1, os.getppid(), [], App(), 30, config, Logger(config))
    worker.tpool, worker.poller, worker._lock = Pool(8), selectors.DefaultSelector(), threading.RLock()
    worker.load_wsgi()
    return worker


def reply(client: socket.socket) -> bytes:
    """A whole reply: its head and its body are sent apart, and may arrive so."""
    found = b""
    while True:
        found += client.recv(65536)
        head, _, body = found.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n"):
            return found


@contextlib.contextmanager
def calls(app: Any) -> Iterator[Callable[[int], None]]:
    """A function that serves that many requests of one connection."""
    from gunicorn.workers.gthread import TConn

    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    connection, address = listener.accept()
    worker = worker_of(app)
    served = TConn(worker.cfg, connection, address, listener.getsockname())
    worker.poller.register(connection, selectors.EVENT_READ, functools.partial(worker.on_client_socket_readable, served))

    def some(times: int) -> None:
        for _ in range(times):
            client.sendall(REQUEST)
            for key, _ in worker.poller.select(60):
                key.data(key.fileobj)
            worker.tpool.step()
            worker.futures.clear()
            if (found := reply(client))[9:12] != b"200":
                raise SystemExit(f"bench: the service answered {found[:40]!r}, wanted 200")

    yield some
    for one in (client, connection, listener):
        one.close()


def measure(app: Any) -> float:
    """us of CPU for each request."""
    with calls(app) as some:
        some(100)
        best = float("inf")
        for _ in range(RUNS):
            began = time.thread_time()
            some(TIMES)
            best = min(best, time.thread_time() - began)
    return best / TIMES * 1e6


def child(variant: str, app: str) -> None:
    """Prints one figure."""
    if variant != "absent":
        import dashcam

        dashcam.start(slow="10s", memory="8MiB")
        if variant == "off":
            dashcam.stop()
    print(measure(APPS[app]()))


def main() -> None:
    """A row for each application: us for each request."""
    env = {**os.environ, "DASHCAM_OUT": "build/bench-captures"}
    print(f"{'':24}{'absent':>9}{'off':>9}{'on':>9}   us of CPU a request, gunicorn's handling of it")
    for app in APPS:
        figures: dict[str, list[float]] = {"absent": [], "off": [], "on": []}
        for _ in range(ROUNDS):
            for variant, times in figures.items():
                command = [sys.executable, __file__, variant, app]
                out = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                times.append(float(out.stdout))
        row = "".join(f"{statistics.median(times):9.1f}" for times in figures.values())
        print(f"{app:24}{row}")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
