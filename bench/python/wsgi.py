"""The cost that recording adds to a WSGI request. An application is loaded by gunicorn's own worker
class, with dashcam's hooks in it, and called in a row on one thread, through a real socket's
descriptor, without a server around it. CPU time of that thread, the best of ten runs each. Rounds
alternate; medians. Each variant is a process of its own, since hooks cannot be removed."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

ROUNDS, RUNS, TIMES = 7, 10, 500


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


def loaded(app: Any) -> Any:
    """The application as a gunicorn worker calls it."""
    from gunicorn.workers.base import Worker

    class App:
        def wsgi(self) -> Any:
            return app

    worker = type("W", (Worker,), {"__init__": lambda self: None, "__module__": "gunicorn.workers.bench"})()
    worker.app = App()
    worker.load_wsgi()
    return worker.wsgi


@contextlib.contextmanager
def calls(app: Any) -> Iterator[Callable[[int], None]]:
    """A function that makes that many calls."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    connection, _ = listener.accept()
    given = {"REQUEST_METHOD": "GET", "PATH_INFO": "/price/5", "SCRIPT_NAME": "", "QUERY_STRING": "",
             "SERVER_NAME": "x", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "x",
             "wsgi.url_scheme": "http", "gunicorn.socket": connection}
    call = loaded(app)

    class Response:
        def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
            return self.write

        def write(self, data: bytes) -> None:
            pass

    def some(times: int) -> None:
        for at in range(times):
            if at % 50 == 0:  # else the socket says that the request has waited for long
                client.send(b"x")
                connection.recv(1)
            response = Response()
            body = call(dict(given), response.start_response)
            for chunk in body:
                response.write(chunk)
            body.close()

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
    print(measure(flask_app() if app == "flask" else bare))


def main() -> None:
    """A row for each application: us for each request."""
    env = {**os.environ, "DASHCAM_OUT": "build/bench-captures"}
    print(f"{'':24}{'absent':>9}{'off':>9}{'on':>9}   us of CPU a request, gunicorn's call without its server")
    for app in ("bare", "flask"):
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
