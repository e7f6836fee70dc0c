"""Unmodified services on event loops, and Django and Celery, under `dashcam run`: every request is
one request, named METHOD route, and `why` names the cause of a slow one."""

from __future__ import annotations

import importlib.util
import socket
import sys
import time
from typing import Any

import pytest
from conftest import BIN, DASHCAM, PATIENCE_S, Bench, blames, free_port, get, wait_for

FASTAPI = """
    import time
    from fastapi import FastAPI
    app = FastAPI()
    @app.get("/price/{sku}")
    async def price(sku: str): return sku
    @app.get("/hold")
    async def hold(): time.sleep(0.4)
    @app.get("/wait")
    def wait(): time.sleep(0.4)
    import loading
"""
STARLETTE = """
    import time
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route
    async def price(request): return PlainTextResponse(request.path_params["sku"])
    async def hold(request):
        time.sleep(0.4)
        return PlainTextResponse("held")
    def wait(request):
        time.sleep(0.4)
        return PlainTextResponse("waited")
    class Passing(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next): return await call_next(request)
    inner = Mount("/shop/{town}", routes=[Route("/price/{sku}", price)])
    app = Starlette(routes=[inner, Route("/hold", hold), Route("/wait", wait)],
                    middleware=[Middleware(Passing)])
    import loading
"""
BARE = """
    import asyncio, time
    async def rest(): await asyncio.sleep(0.4)
    async def app(scope, receive, send):
        if scope["type"] != "http": return
        if scope["path"] == "/hold": time.sleep(0.4)
        if scope["path"] == "/wait": await asyncio.to_thread(time.sleep, 0.4)
        if scope["path"] == "/rest": await rest()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"o", "more_body": True})
        await send({"type": "http.response.body", "body": b"k"})
    import loading
"""
DJANGO = """
    import sys, time
    from django.conf import settings
    settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[
        "django.middleware.common.CommonMiddleware"])
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import include, path, re_path
    def price(request, sku): return HttpResponse(sku)
    def wait(request):
        time.sleep(0.4)
        return HttpResponse("waited")
    async def hold(request):
        time.sleep(0.4)
        return HttpResponse("held")
    urlpatterns = [path("shop/", include([re_path(r"^price/(?P<sku>[^/]+)$", price)])),
                   path("price/<int:sku>", price), path("wait", wait), path("hold", hold)]
    if __name__ == "__main__":
        import loading
        from django.core.management import execute_from_command_line
        execute_from_command_line(sys.argv)
    else:
        asgi, wsgi = get_asgi_application(), get_wsgi_application()
    import loading
"""
BARE_WSGI = """
    import time
    def wait(): time.sleep(0.4)
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/wait": wait()
        start_response("200 OK", [])
        return [b"ok"]
    import loading
"""
AIOHTTP = """
    import asyncio, os, time
    from aiohttp import web
    async def price(request): return web.Response(text=request.match_info["sku"])
    async def hold(request):
        time.sleep(0.4)
        return web.Response(text="held")
    def nap(): time.sleep(0.4)
    async def wait(request):
        await asyncio.get_running_loop().run_in_executor(None, nap)
        return web.Response(text="waited")
    app = web.Application()
    app.add_routes([web.get("/price/{sku}", price), web.get("/hold", hold), web.get("/wait", wait)])
    import loading
    web.run_app(app, host="127.0.0.1", port=int(os.environ["PORT"]), print=None)
"""
TORNADO = """
    import asyncio, os, time
    from tornado.web import Application, RequestHandler
    class Price(RequestHandler):
        def get(self, sku): self.write(sku)
    class Hold(RequestHandler):
        def get(self): time.sleep(0.4)
    def nap(): time.sleep(0.4)
    class Wait(RequestHandler):
        async def get(self): await asyncio.get_running_loop().run_in_executor(None, nap)
    async def rest(): await asyncio.sleep(0.4)
    class Rest(RequestHandler):
        async def get(self): await rest()
    async def main():
        rules = [("/hold", Hold), ("/wait", Wait), ("/rest", Rest), (r"/price/([^/]+)", Price)]
        Application(rules).listen(int(os.environ["PORT"]), "127.0.0.1")
        import loading
        await asyncio.Event().wait()
    asyncio.run(main())
"""
TWISTED = """
    import os, time
    from twisted.internet import defer, reactor
    from twisted.internet.threads import deferToThread
    from twisted.web import resource, server
    class Price(resource.Resource):
        isLeaf = True
        def render_GET(self, request): return request.path.rpartition(b"/")[2]
    class Hold(Price):
        def render_GET(self, request):
            time.sleep(0.4)
            return b"held"
    def nap(): time.sleep(0.4)
    class Wait(Price):
        def render_GET(self, request):
            deferToThread(nap).addCallback(lambda _: request.finish())
            return server.NOT_DONE_YET
    root = resource.Resource()
    root.putChild(b"price", Price())
    root.putChild(b"hold", Hold())
    root.putChild(b"wait", Wait())
    reactor.listenTCP(int(os.environ["PORT"]), server.Site(root), interface="127.0.0.1")
    import loading
    reactor.run()
"""

UVICORN = [str(BIN / "uvicorn"), "--port", "{port}", "--log-level", "warning"]
GUNICORN = [str(BIN / "gunicorn"), "-b", "127.0.0.1:{port}", "--graceful-timeout", "30"]
HYPERCORN = [str(BIN / "hypercorn"), "-b", "127.0.0.1:{port}", "--log-level", "warning"]
DAPHNE = [sys.executable, "-m", "daphne", "-v", "0", "-b", "127.0.0.1", "-p", "{port}"]
GRANIAN = [sys.executable, "-m", "granian", "--port", "{port}", "--no-log"]
FAST = [*UVICORN, "--http", "httptools", "--loop", "uvloop"]
PLAIN = [*UVICORN, "--http", "h11", "--loop", "asyncio"]
OWN = [sys.executable, "program.py"]
NAME, BRACES = "GET /price/{sku}", "GET /price/{id}"
RULE = "GET /price/{path}"
SHOP = "GET /shop/{town}/price/{sku}"

# code, command, path of the quick requests, their name, slow path, cause, function
CASES: dict[str, tuple[str, list[str], str, str, str, str, str]] = {
    "fastapi, httptools, uvloop":
        (FASTAPI, [*FAST, "program:app"], "", NAME, "/hold", "event-loop-blocked", "hold()"),
    "fastapi, h11, asyncio":
        (FASTAPI, [*PLAIN, "program:app"], "", NAME, "/hold", "event-loop-blocked", "hold()"),
    "fastapi, endpoint in a thread":
        (FASTAPI, [*FAST, "program:app"], "", NAME, "/wait", "sleep", "wait()"),
    "fastapi, two workers":
        (FASTAPI, [*UVICORN, "--workers", "2", "program:app"], "", NAME, "/wait", "sleep", "wait()"),
    "fastapi, gunicorn, uvicorn.workers":
        (FASTAPI, [*GUNICORN, "-k", "uvicorn.workers.UvicornWorker", "program:app"],
         "", NAME, "/hold", "event-loop-blocked", "hold()"),
    "fastapi, gunicorn, uvicorn_worker":
        (FASTAPI, [*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "program:app"],
         "", NAME, "/wait", "sleep", "wait()"),
    "fastapi, hypercorn":
        (FASTAPI, [*HYPERCORN, "program:app"], "", NAME, "/hold", "event-loop-blocked", "hold()"),
    "starlette, mounted":
        (STARLETTE, [*PLAIN, "program:app"], "/shop/ulm", SHOP, "/wait", "sleep", "wait()"),
    "starlette, hypercorn":
        (STARLETTE, [*HYPERCORN, "program:app"], "/shop/ulm", SHOP, "/hold",
         "event-loop-blocked", "hold()"),
    "bare, uvicorn":
        (BARE, [*FAST, "program:app"], "", BRACES, "/hold", "event-loop-blocked", "app()"),
    "bare, uvicorn, suspended":
        (BARE, [*FAST, "program:app"], "", BRACES, "/rest", "sleep", "rest()"),
    "bare, hypercorn, suspended":
        (BARE, [*HYPERCORN, "program:app"], "", BRACES, "/rest", "sleep", "rest()"),
    "bare, hypercorn":
        (BARE, [*HYPERCORN, "program:app"], "", BRACES, "/hold", "event-loop-blocked", "app()"),
    "bare WSGI, hypercorn":
        (BARE_WSGI, [*HYPERCORN, "wsgi:program:app"], "", BRACES, "/wait", "sleep", "wait()"),
    "bare, daphne":
        (BARE, [*DAPHNE, "program:app"], "", BRACES, "/hold", "event-loop-blocked", "app()"),
    "bare, daphne, suspended":
        (BARE, [*DAPHNE, "program:app"], "", BRACES, "/rest", "sleep", "rest()"),
    "fastapi, daphne":
        (FASTAPI, [*DAPHNE, "program:app"], "", NAME, "/wait", "sleep", "wait()"),
    "bare, granian":
        (BARE, [*GRANIAN, "--interface", "asgi", "program:app"], "", BRACES, "/hold", "event-loop-blocked", "app()"),
    "bare, granian, suspended":
        (BARE, [*GRANIAN, "--interface", "asgi", "program:app"], "", BRACES, "/rest", "sleep", "rest()"),
    "fastapi, granian":
        (FASTAPI, [*GRANIAN, "--interface", "asgi", "program:app"], "", NAME, "/wait", "sleep", "wait()"),
    "bare WSGI, granian":
        (BARE_WSGI, [*GRANIAN, "--interface", "wsgi", "program:app"], "", BRACES, "/wait", "sleep", "wait()"),
    "django, gunicorn":
        (DJANGO, [*GUNICORN, "program:wsgi"], "", "GET /price/<int:sku>", "/wait", "sleep", "wait()"),
    "django, gunicorn, re_path":
        (DJANGO, [*GUNICORN, "program:wsgi"], "/shop", "GET /shop/price/(?P<sku>[^/]+)",
         "/wait", "sleep", "wait()"),
    "django, uvicorn":
        (DJANGO, [*FAST, "program:asgi"], "", "GET /price/<int:sku>", "/hold",
         "event-loop-blocked", "hold()"),
    "django, uvicorn, plain view":
        (DJANGO, [*PLAIN, "program:asgi"], "", "GET /price/<int:sku>", "/wait", "sleep", "wait()"),
    "django, runserver":
        (DJANGO, [*OWN, "runserver", "127.0.0.1:{port}"], "", "GET /price/<int:sku>", "/wait",
         "sleep", "wait()"),
    "aiohttp, own loop":
        (AIOHTTP, OWN, "", NAME, "/hold", "event-loop-blocked", "hold()"),
    "aiohttp, executor":
        (AIOHTTP, OWN, "", NAME, "/wait", "sleep", "nap()"),
    "tornado, own loop":
        (TORNADO, OWN, "", RULE, "/hold", "event-loop-blocked", "get()"),
    "tornado, executor":
        (TORNADO, OWN, "", RULE, "/wait", "sleep", "nap()"),
    "tornado, suspended":
        (TORNADO, OWN, "", RULE, "/rest", "sleep", "rest()"),
    "twisted, own loop":
        (TWISTED, OWN, "", BRACES, "/hold", "event-loop-blocked", "render_GET()"),
    "twisted, thread pool":
        (TWISTED, OWN, "", BRACES, "/wait", "sleep", "nap()"),
}

# Packages that tests/requirements.txt has for some versions only.
NOT_EVERYWHERE = ["granian", "twisted"]


def serve(bench: Bench, code: str, words: list[str], port: int, slow: str) -> Any:
    """The service under `dashcam run`, once its program is loaded: an earlier request would rightly
    be slow. The requests that may be slow are given by name: on a busy machine others would be slow
    too, and be captured in their place."""
    bench.write("loading.py", 'open("loaded", "w").close()')
    bench.write("program.py", code)
    command = [word.format(port=port) for word in words]
    service = bench.start([DASHCAM, "run", "--slow", f"{slow}>200ms", "--post", "400ms", "--", *command],
                          PORT=str(port))
    wait_for("the program to load", (bench.folder / "loaded").exists)
    return service


@pytest.mark.parametrize("case", CASES)
def test_requests_are_named_and_a_slow_one_has_its_cause(bench: Bench, case: str) -> None:
    for package in NOT_EVERYWHERE:
        if package in case and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed for this interpreter")
    code, words, prefix, name, slow, cause, function = CASES[case]
    port = free_port()
    service = serve(bench, code, words, port, f"GET {slow}")
    for _ in range(5):
        assert get(port, f"{prefix}/price/12345678").strip('"') in ("12345678", "ok")
    get(port, slow)
    captures = bench.wait_captures()
    errors = bench.stop(service)
    assert captures, errors
    names = {r["name"]: r["count"] for r in bench.show(captures[0])["requests"]}
    if "--workers" in words:  # the other one had its part of them
        assert names.pop(name, 5) <= 5 and names == {f"GET {slow}": 1}, (names, errors)
    else:
        assert names == {name: 5, f"GET {slow}": 1}, (names, errors)
    assert captures[0].name.startswith(("uvicorn-", "gunicorn-", "hypercorn-", "granian-", "daphne-", "program-"))
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, cause, "program.py:", function), verdict


def test_a_request_that_waits_for_a_blocked_loop_is_slow_from_its_arrival(bench: Bench) -> None:
    port = free_port()
    service = serve(bench, """
        import asyncio, time
        from fastapi import FastAPI
        app = FastAPI()
        def stir():
            open("stirring", "w").close()
            time.sleep(1)
        @app.get("/stir")
        async def stirring(): asyncio.get_running_loop().call_later(0.05, stir)
        @app.get("/price/{sku}")
        async def price(sku: str): return sku
        @app.get("/late/{sku}")
        async def late(sku: str): return sku
        import loading
    """, [*PLAIN, "program:app"], port, "GET /late/*")
    for _ in range(5):
        get(port, "/price/1")
    get(port, "/stir")
    # Connects, and its data arrives, while the loop is blocked.
    wait_for("the loop to be kept", (bench.folder / "stirring").exists)
    get(port, "/late/2")
    captures = bench.wait_captures()
    errors = bench.stop(service)
    assert captures, errors
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, "event-loop-blocked", "stir()"), verdict


def test_errors_streams_background_work_and_what_is_not_http(bench: Bench) -> None:
    port = free_port()
    service = serve(bench, """
        import asyncio, time
        import dashcam
        from fastapi import BackgroundTasks, FastAPI
        from fastapi.responses import StreamingResponse
        started = []
        async def lifespan(app):
            started.append(1)
            yield
        from contextlib import asynccontextmanager
        app = FastAPI(lifespan=asynccontextmanager(lifespan))
        @app.get("/boom")
        async def boom(): raise ValueError("boom")
        def afterwards(): time.sleep(0.5)
        @app.get("/later")
        async def later(work: BackgroundTasks): work.add_task(afterwards)
        @app.get("/stream")
        async def stream():
            async def parts():
                for i in range(3):
                    await asyncio.sleep(0.05)
                    yield str(i)
            return StreamingResponse(parts())
        @app.get("/snap")
        def snap(): return [str(dashcam.snap()), started]
        import loading
    """, [*FAST, "program:app"], port, "none")
    assert get(port, "/boom") == "500"
    assert get(port, "/stream") == "012"
    get(port, "/later")
    assert get(port, "/none") == "404"
    reply = get(port, "/snap")
    bench.stop(service)
    assert reply.endswith(",[1]]"), reply
    shown = bench.show(reply.split('"')[1])
    by_name = {r["name"]: r for r in shown["requests"]}
    assert set(by_name) == {"GET /boom", "GET /later", "GET /none", "GET /stream", "GET /snap"}, by_name
    # Until the last part of the body, and not until the end of the background work, half a second
    # later.
    assert by_name["GET /stream"]["median_ms"] > 140 and by_name["GET /later"]["median_ms"] < 500


CELERY = """
    import time
    from celery import Celery
    app = Celery("program", broker="filesystem://")
    folder = "queue"
    app.conf.update(task_ignore_result=True, broker_transport_options={
        "data_folder_in": folder, "data_folder_out": folder, "control_folder": folder})
    @app.task
    def add(a, b): return a + b
    @app.task(name="shop.ship")
    def ship(): time.sleep(0.5)
"""


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_each_run_of_a_celery_task_is_a_request(bench: Bench, pool: str) -> None:
    (bench.folder / "queue").mkdir()
    bench.write("program.py", CELERY)
    service = bench.start([
        DASHCAM, "run", "--slow", "celery shop.ship>200ms", "--post", "400ms", "--", str(BIN / "celery"), "-A",
        "program", "worker", "-P", pool, "-c", "1", "-l", "warning", "--without-gossip",
        "--without-mingle", "--without-heartbeat"])
    bench.write("ask.py", """
        import program
        for i in range(5): program.add.delay(i, 1)
        program.ship.delay()
    """)
    asked = bench.start([sys.executable, "ask.py"])
    _, reported = asked.communicate(timeout=PATIENCE_S)
    assert asked.returncode == 0, reported
    captures = bench.wait_captures()
    errors = bench.stop(service)
    assert captures, errors
    # The newest, made at the end: the broker delivers tasks in any order, some after the slow one.
    names = {r["name"]: r["count"] for r in bench.show(bench.captures()[-1])["requests"]}
    assert names.pop("celery shop.ship") == 1, (names, errors)
    assert set(names) <= {"celery program.add"} and names.get("celery program.add", 0) <= 5, names
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, "sleep", "program.py:", "ship()"), verdict


def test_nothing_is_imported_that_the_program_does_not_import(bench: Bench) -> None:
    bench.write("program.py", """
        import sys
        names = "aiohttp anyio asyncio celery django flask hypercorn starlette tornado uvicorn waitress http.server"
        print([n for n in names.split() if n in sys.modules])
    """)
    result = bench.dashcam("run", "--", sys.executable, "program.py")
    assert result.stdout == "[]\n", result.stdout + result.stderr


def test_a_module_of_that_name_with_other_contents_is_left_alone(bench: Bench) -> None:
    (bench.folder / "celery" / "app").mkdir(parents=True)
    for name in ("celery/__init__.py", "celery/app/__init__.py", "celery/app/trace.py"):
        bench.write(name, "mine = 1")
    bench.write("program.py", """
        import celery.app.trace, dashcam
        print(celery.app.trace.mine, dashcam.status()["integrations"])
    """)
    result = bench.dashcam("run", "--", sys.executable, "program.py")
    assert result.stdout.startswith("1 ['celery.app.trace is not as expected"), result


def test_a_thread_that_still_works_when_the_capture_is_made_is_followed(bench: Bench) -> None:
    port = free_port()
    service = serve(bench, """
        import time
        import dashcam
        from fastapi import FastAPI
        app = FastAPI()
        def hang():
            open("hanging", "w").close()
            time.sleep(30)
        @app.get("/hang")
        def hanging(): hang()
        @app.get("/snap")
        async def snap(): return str(dashcam.snap())
        import loading
    """, [*FAST, "program:app"], port, "GET /hang")
    get(port, "/snap")
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for("the request to hang", (bench.folder / "hanging").exists)
        time.sleep(1)
        made = get(port, "/snap").strip('"')
    service.kill()
    assert bench.show(made)["open_requests"] == 2  # /snap itself, too
    verdict = bench.dashcam("why", made).stdout
    assert blames(verdict, "sleep", "hang()"), verdict


@pytest.mark.parametrize("words", [[*PLAIN, "--ws", "wsproto", "program:app"], OWN],
                         ids=["uvicorn", "aiohttp"])
def test_websockets_are_no_requests(bench: Bench, words: list[str]) -> None:
    port = free_port()
    service = serve(bench, """
        import os, sys
        import dashcam
        if "uvicorn" in sys.argv[0]:
            from fastapi import FastAPI, WebSocket
            app = FastAPI()
            @app.websocket("/talk")
            async def talk(socket: WebSocket):
                await socket.accept()
                while True:
                    await socket.send_text(await socket.receive_text())
            @app.get("/snap")
            def snap(): return str(dashcam.snap())
            import loading
        else:
            from aiohttp import web
            async def talk(request):
                socket = web.WebSocketResponse()
                await socket.prepare(request)
                async for message in socket: await socket.send_str(message.data)
                return socket
            async def snap(request): return web.Response(text=str(dashcam.snap()))
            app = web.Application()
            app.add_routes([web.get("/talk", talk), web.get("/snap", snap)])
            import loading
            web.run_app(app, host="127.0.0.1", port=int(os.environ["PORT"]), print=None)
    """, words, port, "none")
    bench.write("talk.py", f"""
        import asyncio, time, urllib.request, aiohttp
        async def main():
            async with aiohttp.ClientSession() as session:
                async with session.ws_connect("http://127.0.0.1:{port}/talk") as socket:
                    await socket.send_str("hello")
                    assert await socket.receive_str() == "hello"
                    await asyncio.sleep(0.5)
                    async with session.get("http://127.0.0.1:{port}/snap") as reply:
                        print((await reply.text()).strip('"'))
        asyncio.run(main())
    """)
    talk = bench.start([sys.executable, "talk.py"])
    reply, errors = talk.communicate(timeout=PATIENCE_S)
    assert talk.returncode == 0, errors
    shown = bench.show(reply.strip())
    bench.stop(service)
    assert [r["name"] for r in shown["requests"]] in ([], ["GET /snap"]), shown["requests"]
    assert shown["open_requests"] <= 1 and len(bench.captures()) == 1
