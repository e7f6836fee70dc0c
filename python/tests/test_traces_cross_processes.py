"""W3C Trace Context: `traceparent` comes in by any server and goes out, and captures show the
ids.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from contextlib import closing

import pytest
from conftest import BIN, PATIENCE_S, Bench, free_port, get, wait_for

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{PARENT}-01"


def ask(port: int, path: str, *headers: tuple[str, str]) -> str:
    """A request with these headers, which may repeat."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.putrequest("GET", path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().read().decode()


def test_a_programs_ids_are_those_in_captures(bench: Bench) -> None:
    result = bench.python("""
        import json, threading, dashcam
        from dashcam import _native as native
        assert dashcam.traceparent() is None, "not started"
        dashcam.start(service="ids", memory="2MiB")
        assert dashcam.traceparent() is None and dashcam.trace_id() is None
        assert dashcam.inject({}) == {}
        with dashcam.request("GET /"):
            outer = dashcam.traceparent()
            version, trace, span, flags = outer.split("-")
            assert (version, trace, flags) == ("00", dashcam.trace_id(), "01")
            assert dashcam.inject({"A": "b"}) == {"A": "b", "traceparent": outer}
            assert dashcam.inject({"TraceParent": "x"}) == {"TraceParent": "x"}
        with dashcam.request("GET /2"):
            assert dashcam.trace_id() != trace
        assert dashcam.traceparent() is None
        print(json.dumps([trace, span, str(dashcam.snap())]))
    """)
    assert result.returncode == 0, result.stderr
    trace, span, path = json.loads(result.stdout)
    reported = [r for r in bench.show(path)["slowest"] if r["name"] == "GET /"]
    assert [(r["trace_id"], r["span_id"]) for r in reported] == [(trace, span)]
    assert re.fullmatch("[0-9a-f]{32}", trace) and trace != "0" * 32


@pytest.mark.parametrize("header, is_valid", [
    (HEADER, True),
    (f"00-{TRACE}-{PARENT}-00", True),
    (f"cc-{TRACE}-{PARENT}-01-what-comes-later", True),
    (f"ff-{TRACE}-{PARENT}-01", False),
    (f"00-{'0' * 32}-{PARENT}-01", False),
    (f"00-{TRACE}-{'0' * 16}-01", False),
    (f"00-{TRACE.upper()}-{PARENT}-01", False),
    (f"00-{TRACE}-{PARENT}-01-more", False),
    ("", False),
    ("\u00e4\u20ac", False),
])
def test_a_header_is_accepted_or_refused_by_the_recommendation(
    bench: Bench, header: str, is_valid: bool
) -> None:
    result = bench.python(f"""
        import dashcam
        from dashcam import _native as native
        dashcam.start(memory="2MiB")
        with dashcam.request("GET /"):
            before = dashcam.trace_id()
            taken = native.request_continue(native.current_request(), {header!r}, "a=1,b=2")
            assert taken == {is_valid}, taken
            assert dashcam.trace_id() == ({TRACE!r} if taken else before)
            headers = dashcam.inject({{}})
            assert headers.get("tracestate") == ("a=1,b=2" if taken else None), headers
            if taken:
                assert headers["traceparent"].endswith({header!r}[52:55])
        assert native.request_continue(12345, {header!r}) is False, "no such request"
    """)
    assert result.returncode == 0, result.stderr


SERVERS = {
    "gunicorn": ("app.py", """
        def app(environ, start_response):
            import dashcam
            start_response("200 OK", [])
            return [(dashcam.traceparent() or "none").encode()]
        """, ["gunicorn", "-b", "127.0.0.1:{port}", "app:app"]),
    "http.server": ("app.py", """
        import sys
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                import dashcam
                self.send_response(200)
                self.end_headers()
                self.wfile.write((dashcam.traceparent() or "none").encode())
            def log_message(self, *args):
                pass
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
        """, [sys.executable, "app.py", "{port}"]),
    "uvicorn": ("app.py", """
        async def app(scope, receive, send):
            import dashcam
            if scope["type"] != "http":
                return
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = (dashcam.traceparent() or "none").encode()
            await send({"type": "http.response.body", "body": body})
        """, ["uvicorn", "--lifespan", "off", "--port", "{port}", "app:app"]),
    "hypercorn": ("app.py", """
        async def app(scope, receive, send):
            import dashcam
            if scope["type"] != "http":
                return
            body = (dashcam.traceparent() or "none").encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
        """, ["hypercorn", "-b", "127.0.0.1:{port}", "app:app"]),
    "aiohttp": ("app.py", """
        import sys
        from aiohttp import web
        async def root(request):
            import dashcam
            return web.Response(text=dashcam.traceparent() or "none")
        app = web.Application()
        app.router.add_get("/", root)
        web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
        """, [sys.executable, "app.py", "{port}"]),
}


@pytest.mark.parametrize("server", SERVERS)
def test_every_server_hands_the_callers_trace_on(bench: Bench, server: str) -> None:
    name, code, words = SERVERS[server]
    bench.write(name, code)
    port = free_port()
    words = [word.format(port=port) for word in words]
    command = [str(BIN / words[0]), *words[1:]]
    service = bench.start([str(BIN / "dashcam"), "run", "--memory", "4MiB", "--", *command])
    get(port)
    reported = ask(port, "/", ("Traceparent", HEADER), ("Tracestate", "a=1"))
    assert reported.startswith(f"00-{TRACE}-") and reported.endswith("-01"), reported
    assert PARENT not in reported, "the span is ours"
    for wrong in [(("traceparent", f"ff{HEADER[2:]}"),),
                  (("traceparent", HEADER), ("traceparent", HEADER)),
                  ()]:
        own = ask(port, "/", *wrong)
        assert own.startswith("00-") and TRACE not in own, own
    # Normally: a server's own child would hold our pipes open.
    bench.stop(service)


CLIENTS = {
    "urllib": "urllib.request.urlopen(url).read().decode()",
    "requests": "requests.get(url).text",
    "httpx": "httpx.get(url).text",
    "httpx async": "asyncio.run(ask_httpx(url))",
    "aiohttp": "asyncio.run(ask_aiohttp(url))",
}


def test_clients_send_it_along_when_asked_to(bench: Bench) -> None:
    port = free_port()
    bench.write("echo.py", f"""
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                found = self.headers.get_all("traceparent", []) + self.headers.get_all("tracestate", [])
                body = " ".join(found).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *args):
                pass
        ThreadingHTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
    """)
    bench.start([sys.executable, "echo.py"])
    get(port)
    code = f"""
        import asyncio, json, urllib.request
        import dashcam
        dashcam.start(memory="2MiB")
        import aiohttp, httpx, requests
        from dashcam import _native as native
        url = "http://127.0.0.1:{port}/"
        async def ask_httpx(url):
            async with httpx.AsyncClient() as client:
                return (await client.get(url)).text
        async def ask_aiohttp(url):
            async with aiohttp.ClientSession() as session, session.get(url) as reply:
                return await reply.text()
        reported = {{"outside": urllib.request.urlopen(url).read().decode()}}
        with dashcam.request("GET /"):
            native.request_continue(native.current_request(), {HEADER!r}, "a=1")
            with dashcam.span("call"):
                reported["here"] = dashcam.traceparent()
                own = urllib.request.Request(url, headers={{"traceparent": "mine"}})
                reported["own"] = urllib.request.urlopen(own).read().decode()
                CALLS
        print(json.dumps(reported))
    """
    calls = "\n                ".join(f"reported[{k!r}] = {v}" for k, v in CLIENTS.items())
    result = bench.python(code.replace("CALLS", calls), DASHCAM_PROPAGATE="on")
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    assert reported.pop("outside") == ""
    assert reported.pop("own") == "mine"
    here = reported.pop("here")
    assert here.startswith(f"00-{TRACE}-")
    # Of the same trace; the parent is the span of the call itself where that has begun (`calls`).
    assert set(reported) == set(CLIENTS)
    for client, sent in reported.items():
        if client in ("urllib", "aiohttp"):
            assert sent == f"{here} a=1", client
        else:
            assert sent.startswith(f"00-{TRACE}-") and sent.endswith("-01 a=1") and sent != f"{here} a=1", client
    without = bench.python(code.replace("CALLS", calls), DASHCAM_PROPAGATE="on", DASHCAM_CALLS="off")
    reported = json.loads(without.stdout)
    assert {reported[client] for client in CLIENTS} == {f"{reported['here']} a=1"}
    # Nothing leaves the process unasked.
    result = bench.python(code.replace("CALLS", calls))
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    assert {reported[client] for client in CLIENTS} == {""}


def test_a_celery_task_goes_on_in_its_senders_trace(bench: Bench) -> None:
    bench.write("jobs.py", """
        from celery import Celery
        app = Celery("jobs", broker="filesystem://", backend="cache+memory://")
        app.conf.broker_transport_options = {
            "data_folder_in": "queue", "data_folder_out": "queue", "processed_folder": "done"}
        @app.task
        def work(place):
            import dashcam
            with open(place, "w") as out:
                out.write(dashcam.traceparent() or "none")
    """)
    (bench.folder / "queue").mkdir()
    bench.start([str(BIN / "dashcam"), "run", "--memory", "2MiB", "--", str(BIN / "celery"), "-A",
                 "jobs", "worker", "-P", "solo", "-l", "error"])
    place = bench.folder / "reported"
    result = bench.python(f"""
        import dashcam
        dashcam.start(memory="2MiB")
        from jobs import work
        with dashcam.request("GET /"):
            work.delay({str(place)!r})
            print(dashcam.trace_id())
    """, DASHCAM_PROPAGATE="on", PYTHONPATH=str(bench.folder), PYTHONWARNINGS="ignore")
    assert result.returncode == 0, result.stderr
    wait_for("the task's word", lambda: place.exists() and place.read_text())
    assert place.read_text().startswith(f"00-{result.stdout.strip()}-")


def test_open_spans_are_recorded_and_are_parents_of_calls(bench: Bench) -> None:
    result = bench.python("""
        import asyncio, json, dashcam
        dashcam.start(memory="2MiB")
        reported = {}
        with dashcam.request("GET /"):
            with dashcam.span("ended"):
                pass
            with dashcam.span("outer"):
                reported["outer"] = dashcam.traceparent()
                with dashcam.span("inner", rows=3):
                    reported["inner"] = dashcam.traceparent()
                    reported["still"] = str(dashcam.snap())
            never_left = dashcam.span("never left")
            never_left.__enter__()
            del never_left
        with dashcam.span("no request"):
            reported["alone"] = dashcam.traceparent()
            assert reported["alone"].split("-")[1] == dashcam.trace_id()

        async def child(number):
            with dashcam.span(f"child {number}"):
                await asyncio.sleep(0.01)

        async def main():
            with dashcam.request("async"):
                await asyncio.gather(*(child(n) for n in range(40)))

        asyncio.run(main())
        reported["path"] = str(dashcam.snap())
        reported["losses"] = dashcam.status()["losses"]
        print(json.dumps(reported))
    """)
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    assert {s["name"] for s in bench.show(reported["still"])["open_spans"]} == {"outer", "inner"}
    assert bench.show(reported["path"])["open_spans"] == []
    assert reported["losses"]["spans_untracked"] == 25, "of forty at once fifteen have room"
    shown = bench.dashcam("show", "--json", reported["path"])
    request = next(r for r in json.loads(shown.stdout)["slowest"] if r["name"] == "GET /")
    one = bench.dashcam("show", "--request", str(request["id"]), "--json", reported["path"])
    spans = {s["name"]: s for s in json.loads(one.stdout)["spans"]}
    assert set(spans) == {"ended", "outer", "inner"}
    for name in ("outer", "inner"):
        _, trace, span, _ = reported[name].split("-")
        assert (spans[name]["trace_id"], spans[name]["span_id"]) == (trace, span)
    assert spans["inner"]["parent_id"] == spans["outer"]["span_id"]
    assert spans["outer"]["parent_id"] == request["span_id"]
