"""Sanic on its own server, Litestar as an application, eventlet's server, Flask on werkzeug's, Twisted's server:
requests with their routes and errors."""

from __future__ import annotations

import pytest

from conftest import Bench
from test_jobs_of_queues_are_requests import recorded


def test_sanic(bench: Bench) -> None:
    pytest.importorskip("sanic")
    found = recorded(bench, """
import asyncio, http.client, socket, threading
import recorded, sanic
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
app = sanic.Sanic("shop")
@app.get("/items/<item:int>")
async def item(request, item): return sanic.text(str(item))
@app.get("/fails")
async def fails(request): raise LookupError("x")
@app.get("/plain")
def plain(request): return sanic.text("plain")
@app.get("/streams")
async def streams(request):
    response = await request.respond()
    await response.send("one")
    await response.send("two")
@app.after_server_start
async def ask(app):
    threading.Thread(target=client, args=(asyncio.get_running_loop(),)).start()
answers = []
def client(loop):
    connection = http.client.HTTPConnection(*listener.getsockname(), timeout=90)
    for path in ("/items/7", "/fails", "/plain", "/streams", "/nowhere"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answers.append((answer.status, answer.read()[:9]))
    connection.close()
    loop.call_soon_threadsafe(app.stop)
app.run(sock=listener, single_process=True, motd=False, access_log=False)
assert [status for status, _ in answers] == [200, 500, 200, 200, 404], answers
recorded.requests()
""")
    assert found == ["GET /fails error", "GET /items/<item:int>", "GET /nowhere", "GET /plain", "GET /streams"]


def test_litestar(bench: Bench) -> None:
    pytest.importorskip("litestar")
    found = recorded(bench, """
import asyncio
import litestar, recorded
@litestar.get("/items/{item:int}", sync_to_thread=False)
def item(item: int) -> dict: return {"item": item}
@litestar.get("/fails")
async def fails() -> None: raise LookupError("x")
app = litestar.Litestar([item, fails])
async def status(path):
    sent = []
    async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message): sent.append(message)
    await app({"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
               "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": [(b"host", b"x")],
               "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}, receive, send)
    return sent[0]["status"]
async def main(): return [await status(path) for path in ("/items/7", "/fails", "/nowhere")]
assert asyncio.run(main()) == [200, 500, 404]
recorded.requests()
""")
    assert found == ["GET /fails error", "GET /items/{item}", "GET /nowhere"]


def test_eventlet(bench: Bench) -> None:
    pytest.importorskip("eventlet")
    found = recorded(bench, """
import eventlet
eventlet.monkey_patch()
dashcam.stop()
assert dashcam.start(slow="90s")  # a main thread without a number of the kernel's
import eventlet.wsgi, http.client, recorded
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]
listener = eventlet.listen(("127.0.0.1", 0))
eventlet.spawn(eventlet.wsgi.server, listener, app, log_output=False)
connection = http.client.HTTPConnection(*listener.getsockname(), timeout=90)
for path in ("/items/7", "/plain"):
    connection.request("GET", path)
    assert connection.getresponse().read() == b"ok"
connection.close()
recorded.requests()
""")
    assert found == ["GET /items/{id}", "GET /plain"]


def test_flask_on_its_development_server(bench: Bench) -> None:
    found = recorded(bench, """
import http.client, threading
import flask, recorded
from werkzeug.serving import make_server
app = flask.Flask("shop")
@app.get("/items/<int:item>")
def item(item): return str(item)
@app.get("/down")
def down(): return "down", 503
@app.get("/fails")
def fails(): raise LookupError("x")
server = make_server("127.0.0.1", 0, app)
serving = threading.Thread(target=server.serve_forever)
serving.start()
answers = []
for path in ("/items/7", "/down", "/fails"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    connection.request("GET", path)
    answers.append(connection.getresponse().status)
    connection.close()
server.shutdown()
serving.join()
assert answers == [200, 503, 500], answers
recorded.requests()
""")
    assert found == ["GET /down error", "GET /fails error", "GET /items/<int:item>"]


def test_twisted(bench: Bench) -> None:
    pytest.importorskip("twisted")
    found = recorded(bench, """
import recorded
from dashcam import _native
from twisted.python.failure import Failure
from twisted.web import resource, server
from twisted.web.test.requesthelper import DummyChannel
from twisted.internet.defer import ensureDeferred
from twisted.python.threadpool import ThreadPool
current = {}
async def answers(request): request.finish()
class Leaf(resource.Resource):
    isLeaf = True
    def render_GET(self, request):
        current[request.path] = _native.current_request()
        if request.path == b"/fails": raise LookupError("x")
        current[request.path, "trace"] = _native.trace_id()
        if request.path == b"/in_a_coroutine": ensureDeferred(answers(request))
        if request.path == b"/in_a_thread":
            pool.callInThreadWithCallback(None, lambda: current.update(thread=_native.current_request()))
        return b"ok" if request.path.startswith(b"/items") else server.NOT_DONE_YET
pool, site = ThreadPool(1, 1), server.Site(Leaf())
site.displayTracebacks = False
def ask(path, **headers):
    channel = DummyChannel()
    channel.site = site
    request = server.Request(channel, False)
    for name, value in headers.items():
        request.requestHeaders.addRawHeader(name, value)
    request.gotLength(0)
    request.requestReceived(b"GET", path, b"HTTP/1.1")
    assert not _native.current_request(), path
    return request
ask(b"/in_a_coroutine")  # it finishes in a context of its own
trace = "0af7651916cd43dd8448eb211c80319c"
ask(b"/items/7?more=1", traceparent=f"00-{trace}-b7ad6b7169203331-01".encode())
assert current[b"/items/7", "trace"] == trace, current
ask(b"/finished_later").finish()
ask(b"/lost").connectionLost(Failure(ConnectionError()))
ask(b"/fails")
ask(b"/talks", upgrade=b"websocket")
request = ask(b"/in_a_thread")
pool.start()
pool.stop()
request.finish()
assert current[b"/items/7"] and not current[b"/talks"] and current["thread"] == current[b"/in_a_thread"], current
recorded.requests()
""")
    assert found == ["GET /fails error", "GET /finished_later", "GET /in_a_coroutine", "GET /in_a_thread", "GET /items/{id}", "GET /lost"]
