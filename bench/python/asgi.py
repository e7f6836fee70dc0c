"""The cost that recording adds to a request on an event loop. uvicorn's own protocol class gets one
request after another through a real socket pair's descriptor, with dashcam's hooks on, off and
absent. Rounds alternate; medians. Each variant is a process of its own, since hooks cannot be
removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable

ROUNDS, TIMES = 7, 4_000
REQUEST = b"GET /price/5 HTTP/1.1\r\nHost: x\r\n\r\n"


class Transport(asyncio.Transport):
    """Takes the written bytes; its socket is real."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"socket": connection, "peername": ("127.0.0.1", 1),
                          "sockname": ("127.0.0.1", 2)})
        self._sock_fd = connection.fileno()  # as asyncio's own
        self.written = 0

    def write(self, data: Any) -> None:
        # An answer begins with its status; the parts behind it do not.
        if data[:5] == b"HTTP/" and data[9:12] != b"200":
            raise SystemExit(f"bench: the service answered {bytes(data[:40])!r}, wanted 200")
        self.written += len(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The smallest application."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def fastapi_app() -> Any:
    """One endpoint."""
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/price/{sku}")
    async def price(sku: str) -> str:
        return sku

    return app


def priced_app() -> Any:
    """The service of bench/services: one query, some text, JSON."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "services"))
    import fastapi_app as service

    return service.app


APPS: dict[str, Callable[[], Any]] = {"bare": lambda: bare, "fastapi": fastapi_app, "price": priced_app}


@contextlib.asynccontextmanager
async def calls(app: Any, implementation: str) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """A function that serves that many requests."""
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    config = Config(app, http=implementation, log_level="error", lifespan="off", access_log=False)
    config.load()
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    connection, _ = listener.accept()
    protocol: Any = config.http_protocol_class(config, ServerState(), {})
    protocol.connection_made(Transport(connection))

    async def some(times: int) -> None:
        for _ in range(times):
            protocol.data_received(REQUEST)
            while not protocol.cycle.response_complete:
                await asyncio.sleep(0)

    yield some
    for one in (client, connection, listener):
        one.close()


async def measure(app: Any, implementation: str) -> float:
    """us for each request."""
    async with calls(app, implementation) as some:
        await some(500)
        began = time.perf_counter()
        await some(TIMES)
        took = time.perf_counter() - began
    return took / TIMES * 1e6


def child(variant: str, app: str, implementation: str) -> None:
    """Prints one figure."""
    if variant != "absent":
        import dashcam

        dashcam.start(slow="10s", memory="8MiB")
        if variant == "off":
            dashcam.stop()
    print(asyncio.run(measure(APPS[app](), implementation)))


def main() -> None:
    """A row for each server and application: us for each request."""
    env = {**os.environ, "DASHCAM_OUT": "build/bench-captures"}
    print(f"{'':24}{'absent':>9}{'off':>9}{'on':>9}   us a request")
    for implementation, app in (("httptools", "bare"), ("h11", "bare"), ("httptools", "fastapi"), ("httptools", "price")):
        figures: dict[str, list[float]] = {"absent": [], "off": [], "on": []}
        for _ in range(ROUNDS):
            for variant, times in figures.items():
                command = [sys.executable, __file__, variant, app, implementation]
                out = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                times.append(float(out.stdout))
        row = "".join(f"{statistics.median(times):9.1f}" for times in figures.values())
        print(f"{implementation + ' ' + app:24}{row}")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
