"""The hooks that run in each request are native: no frame of dashcam's is made, which was most of its cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FRAMES = """
import sys
import dashcam

FOLDER = dashcam.__file__.rpartition("/")[0]
dashcam.start(slow="60s", out=OUT, memory="8MiB")

def frames(serve):
    found = set()

    def see(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            found.add(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    begun = dashcam.status()["requests"]
    sys.setprofile(see)
    try:
        serve()
    finally:
        sys.setprofile(None)
    assert dashcam.status()["requests"] == begun + 1, "the request was recorded"
    print(*sorted(found) or ["none"])
"""

GUNICORN = """
import selectors, socket, threading
from concurrent.futures import ThreadPoolExecutor
from flask import Flask
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import TConn, ThreadWorker

app = Flask("shop")
app.get("/price/<sku>")(lambda sku: {"sku": sku})

class Program:
    def wsgi(self):
        return app

class Pool(ThreadPoolExecutor):
    def _adjust_thread_count(self):
        pass

config = Config()
worker = ThreadWorker(1, 1, [], Program(), 30, config, Logger(config))
worker.tpool, worker.poller, worker._lock = Pool(1), selectors.DefaultSelector(), threading.RLock()
worker.load_wsgi()
client, connection = socket.socketpair()
served = TConn(config, connection, ("127.0.0.1", 1), ("127.0.0.1", 2))

def serve():
    client.sendall(b"GET /price/5 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    worker.enqueue_req(served)
    # From 3.14 on the pool makes a context for each of its threads.
    context = getattr(worker.tpool, "_create_worker_context", None)
    worker.tpool._work_queue.get_nowait().run(*([context()] if context else []))
    assert b"200 OK" in client.recv(65536)

serve()
frames(serve)
"""

UVICORN = """
import asyncio
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

async def price(request):
    return PlainTextResponse("5")

app = Starlette(routes=[Route("/price/{sku}", price)])

class Transport(asyncio.Transport):
    sent = b""

    def get_extra_info(self, name, default=None):
        return default

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return False

async def serve():
    protocol.data_received(b"GET /price/5 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    while not protocol.cycle.response_complete:
        await asyncio.sleep(0)

async def main():
    global protocol
    config = Config(app, http="h11", lifespan="off", log_level="error", access_log=False)
    config.load()
    protocol = H11Protocol(config, ServerState(), {})
    protocol.connection_made(Transport())
    await serve()

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
frames(lambda: loop.run_until_complete(serve()))
"""


def frames_of(program: str, tmp_path: Path) -> str:
    """The frames of dashcam's that one request of this program made."""
    code = FRAMES.replace("OUT", repr(str(tmp_path))) + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_request_of_flask_on_gunicorn(tmp_path: Path) -> None:
    assert frames_of(GUNICORN, tmp_path) == "none"


def test_a_request_of_starlette_on_uvicorn(tmp_path: Path) -> None:
    assert frames_of(UVICORN, tmp_path) == "none"


CALLED = """
import collections, sys
from flask import Flask

app = Flask("shop")
app.get("/price/<sku>")(lambda sku: {"sku": sku})
client = app.test_client()
client.get("/price/4")
called = collections.Counter()

def see(frame, event, arg):
    if event == "call":
        called[frame.f_code.co_filename, frame.f_code.co_name] += 1

sys.setprofile(see)
client.get("/price/5")
sys.setprofile(None)
print(sorted(called.items()))
"""


def test_the_programs_own_functions_are_called_no_more_often(tmp_path: Path) -> None:
    """A profiler or a debugger of the program counts the same calls, properties included, where a framework
    begins the request."""
    start = f"import dashcam; dashcam.start(slow='60s', out={str(tmp_path)!r}, memory='8MiB'); print(dashcam.status()['on'])\n"
    bare, recorded = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
                      for code in ("print(True)\n" + CALLED, start + CALLED))
    assert "full_dispatch_request" in bare
    assert recorded == bare
