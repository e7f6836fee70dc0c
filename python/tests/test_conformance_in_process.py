"""Applications called with anything that a server or a test may give them: the result is the same
bare and recorded.

Each program runs twice in one process, without dashcam and with it, and compares its own notes:
what was raised, with which frames, what was returned, what the application saw.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compared import run
from conftest import Bench

# Scopes that no server should give, and some servers do.
SCOPES = """
    FULL = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": "/a", "raw_path": b"/a", "root_path": "", "query_string": b"", "headers": [(b"host", b"x")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    class Raises(UserDict):
        def __getitem__(self, key):
            if key == "headers": raise RuntimeError("no headers today")
            return super().__getitem__(key)
    class Bad:
        def __iter__(self): raise RuntimeError("not to be walked")
        def __eq__(self, other): raise RuntimeError("not to be compared")
        __hash__ = None
    scopes = {"full": FULL, "empty": {}, "none": None, "a list": [], "text": "x", "user dict": UserDict(FULL),
              "proxy": types.MappingProxyType(FULL), "raises": Raises(FULL), "of another type": {"type": "odd"},
              "of a bad type": {**FULL, "type": Bad()}, "websocket": {**FULL, "type": "websocket"}}
    for key in FULL: scopes["no " + key] = {k: v for k, v in FULL.items() if k != key}
    for key, odd in itertools.product(("method", "path", "headers", "root_path", "type"),
                                      (None, 7, b"bytes", [], [1], [(1, 2)], [(b"a",)], "\\udc80", Bad(), {})):
        scopes[f"{key} is {type(odd).__name__} {odd if type(odd) is not Bad else ''!r}"] = {**FULL, key: odd}
    scopes["many traceparents"] = {**FULL, "headers": [(b"traceparent", b"x")] * 3}
    scopes["odd traceparent"] = {**FULL, "headers": [(b"traceparent", 7), [b"tracestate", None], (b"traceparent", b"00-" + b"1" * 32)]}
"""

APPLICATIONS = {
    "starlette": """
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route
    async def endpoint(request): return PlainTextResponse(repr(kinds(request.receive)))
    async def fails(request): raise LookupError("in an endpoint")
    application = Starlette(routes=[Route("/a", endpoint), Route("/f", fails), Mount("/m", routes=[Route("/a", endpoint)]),
                                    Mount("/s", app=endpoint)])
    """,
    "fastapi": """
    from fastapi import FastAPI
    application = FastAPI()
    @application.get("/a")
    async def endpoint(): return "a"
    @application.get("/f")
    def fails(): raise LookupError("in a thread")
    """,
    "django": """
    import django
    from django.conf import settings
    settings.configure(ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], SECRET_KEY="x")
    django.setup()
    logging.disable(logging.CRITICAL)
    from django.http import HttpResponse
    from django.urls import path
    sys.modules["urls"] = urls = types.ModuleType("urls")
    async def view(request): return HttpResponse("a")
    def fails(request): raise LookupError("in a view")
    urls.urlpatterns = [path("a", view), path("f", fails)]
    from django.core.asgi import get_asgi_application
    application = get_asgi_application()
    """,
    "hypercorn": """
    from hypercorn.app_wrappers import ASGIWrapper
    async def plain(scope, receive, send):
        if scope["path"] == "/f": raise LookupError("in an application")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": repr(kinds(send)).encode()})
    wrapped = ASGIWrapper(plain)
    def application(scope, receive, send): return wrapped(scope, receive, send, None, None)
    """,
    "hypercorn, WSGI": """
    from hypercorn.app_wrappers import WSGIWrapper
    def plain(environ, start_response):
        if environ["PATH_INFO"] == "/f": raise LookupError("in an application")
        start_response("200 OK", [("x-scheme", environ["wsgi.url_scheme"])])
        return [b"a", environ["PATH_INFO"].encode()]
    wrapped = WSGIWrapper(plain, 1 << 16)
    def application(scope, receive, send):
        loop = asyncio.get_running_loop()
        def call_soon(send, *given): return asyncio.run_coroutine_threadsafe(send(*given), loop).result()
        async def spawn(run, *given): return await loop.run_in_executor(None, run, *given)
        return wrapped(scope, receive, send, spawn, call_soon)
    """,
}


@pytest.mark.parametrize("framework", APPLICATIONS)
def test_no_scope_makes_an_error_of_ours(bench: Bench, framework: str) -> None:
    run(bench, SCOPES + APPLICATIONS[framework] + """
    def call(scope):
        sent = []
        async def receive(): return {"type": "http.request", "body": b""}
        async def send(message): sent.append(str(message))
        async def serve():
            scope_now = dict(scope) if type(scope) is dict else scope
            if hasattr(scope_now, "data"): scope_now = type(scope)(scope.data)
            coroutine = application(scope_now, receive, send)
            said = kinds(coroutine), coroutine.cr_code.co_name, coroutine.cr_running, inspect.getcoroutinestate(coroutine)
            try: await coroutine
            finally: said_then = inspect.getcoroutinestate(coroutine), coroutine.cr_frame
            keys = sorted(map(str, scope_now)) if hasattr(scope_now, "keys") else None
            return said, said_then, sent, keys
        return asyncio.run(serve())
    cases = {name: lambda scope=scope: call(scope) for name, scope in scopes.items()}
    cases["fails"] = lambda: call({**FULL, "path": "/f"})
    cases["mounted"] = lambda: call({**FULL, "path": "/m/a"})
    cases["of another kind"] = lambda: call({**FULL, "path": "/s/a"})
    cases["nothing there"] = lambda: call({**FULL, "path": "/none"})
    compare(cases)
    """)


@pytest.mark.parametrize("framework", APPLICATIONS)
def test_a_call_that_nobody_awaits_is_warned_of_as_bare(bench: Bench, framework: str) -> None:
    run(bench, SCOPES + APPLICATIONS[framework] + """
    async def nothing(*given): return None
    def dropped():
        coroutine = application(dict(FULL), nothing, nothing)
        del coroutine
    def closed():
        coroutine = application(dict(FULL), nothing, nothing)
        coroutine.close()
        coroutine.close()
        return coroutine.cr_frame, inspect.getcoroutinestate(coroutine)
    def awaited_twice():
        coroutine = application(dict(FULL), nothing, nothing)
        async def both():
            await coroutine
            await coroutine
        asyncio.run(both())
    def wrong(): application(1, 2, 3, 4, 5, 6)
    def too_few(): application(dict(FULL))
    compare(dict(dropped=dropped, closed=closed, awaited_twice=awaited_twice, wrong=wrong, too_few=too_few))
    """)


def test_errors_in_flask_have_no_frame_of_ours(bench: Bench) -> None:
    run(bench, """
    import flask
    app = flask.Flask("program")
    app.testing = True
    said = []
    @app.route("/a")
    def plain(): return " ".join(f.function for f in inspect.stack()) + str(sorted(flask.request.environ))
    @app.route("/f")
    def fails(): raise LookupError("in a view")
    @app.route("/s")
    def streams():
        def parts():
            yield "a"
            raise LookupError("in a stream")
        return flask.Response(parts())
    @app.errorhandler(ValueError)
    def handled(error): return repr([f.name for f in traceback.extract_tb(error.__traceback__)])
    @app.route("/h")
    def raises_handled(): raise ValueError("handled")
    class Handler(logging.Handler):
        def emit(self, record): said.append((record.funcName, record.lineno, logging.Formatter().format(record)))
    app.logger.addHandler(Handler())
    def get(path, **settings):
        app.testing = settings.pop("testing", True)
        said.clear()
        reply = app.test_client().get(path)
        return reply.status, reply.get_data(), list(said), list(reply.headers)
    cases = {path: lambda path=path: get(path) for path in ("/f", "/h", "/none", "/s")}
    cases["logged"] = lambda: get("/f", testing=False)
    for method in ("wsgi_app", "full_dispatch_request", "handle_exception", "dispatch_request"):
        cases[method] = lambda method=method: (kinds(getattr(flask.Flask, method)), kinds(getattr(app, method)))
    compare(cases)
    """)


def test_work_in_pools_passes_as_it_is(bench: Bench) -> None:
    run(bench, """
    import concurrent.futures, anyio.to_thread
    def names(): return [f.function for f in inspect.stack()]
    def fails(): raise LookupError("in a pool")
    class Callable:
        "Compared and asked as itself."
        def __call__(self, *args, **kwargs): return args, kwargs, sorted(vars(self))
    def pooled(function, *args, **kwargs):
        with concurrent.futures.ThreadPoolExecutor(1) as pool: return pool.submit(function, *args, **kwargs).result()
    async def in_anyio(function): return await anyio.to_thread.run_sync(function)
    def requested(call):
        def inside():
            with dashcam.request("GET /a"): return call()
        return inside
    cases = {"stack": lambda: pooled(names), "error": lambda: pooled(fails), "object": lambda: pooled(Callable(), 1, x=2),
             "none": lambda: pooled(None), "anyio": lambda: asyncio.run(in_anyio(names)),
             "anyio, error": lambda: asyncio.run(in_anyio(fails))}
    compare({name: requested(case) for name, case in cases.items()})
    """)


def test_importing_is_as_bare(bench: Bench) -> None:
    bench.write("bad_module.py", "import json\nraise LookupError('while it is imported')")
    bench.write("bad_import.py", "import http.server\nimport bad_module")
    run(bench, """
    import importlib, importlib.util, pkgutil
    def finders(): return [repr(finder) for finder in sys.meta_path], len(sys.path_hooks)
    def spec(name):
        found = importlib.util.find_spec(name)
        return type(found.loader).__name__, found.origin, sorted(vars(found))
    def imports(name):
        sys.modules.pop(name, None)
        try: module = importlib.import_module(name)
        finally: sys.modules.pop(name, None)
        return type(module.__loader__).__name__, [k for k in vars(module) if k.startswith("_")], module.__spec__.loader is module.__loader__
    def reloaded():
        import http.server
        first = http.server.BaseHTTPRequestHandler
        again = importlib.reload(http.server)
        return again is http.server, first is again.BaseHTTPRequestHandler
    def by_hand():
        spec = importlib.util.find_spec("http.server")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.__name__, type(spec.loader).__name__
    def lazily():
        spec = importlib.util.find_spec("wsgiref.handlers")
        loader = importlib.util.LazyLoader(spec.loader)
        spec.loader = loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["wsgiref.handlers"] = module
        loader.exec_module(module)
        kind = type(module).__name__
        return kind, module.BaseHandler.__name__, type(module).__name__, sys.modules.pop("wsgiref.handlers") is module
    functions = [importlib._bootstrap._load_unlocked, importlib._bootstrap_external._LoaderBasics.exec_module]
    def asked(): return [(repr(f), kinds(f)) for f in functions]
    cases = {"finders": finders, "asked": asked, "by hand": by_hand, "lazily": lazily, "reloaded": reloaded,
             "source": lambda: len(inspect.getsource(sys.modules["http.server"])) if "http.server" in sys.modules else None,
             "packages": lambda: sorted(m.name for m in pkgutil.iter_modules(__import__("http").__path__))}
    for name in ("http.server", "wsgiref.handlers", "flask.app", "bad_module", "bad_import", "nothing_there"):
        cases["imports " + name] = lambda name=name: imports(name)
    for name in ("http.server", "wsgiref.handlers", "starlette.routing"): cases["spec " + name] = lambda name=name: spec(name)
    compare(cases)
    """)


def test_a_reloaded_module_is_recorded_again(bench: Bench) -> None:
    result = bench.python("""
    import importlib, dashcam, io, sys
    assert dashcam.start(slow="9s")
    import wsgiref.handlers
    from wsgiref.simple_server import make_server
    seen = []
    def application(environ, start_response):
        seen.append(dashcam._native.current_request())
        start_response("200 OK", [])
        return [b""]
    def serve():
        handler = sys.modules["wsgiref.handlers"].SimpleHandler(io.BytesIO(), io.BytesIO(), io.StringIO(),
                                                                {"REQUEST_METHOD": "GET", "PATH_INFO": "/a"})
        handler.run(application)
    serve()
    importlib.reload(wsgiref.handlers)
    serve()
    assert len(seen) == 2 and all(seen) and seen[0] != seen[1], seen
    """)
    assert result.returncode == 0, result.stderr


BODIES = str(Path(__file__).resolve().parents[2] / "tests" / "conformance" / "applications")


@pytest.mark.parametrize("way", ["application", "flask"])
def test_every_wsgi_body_is_asked_and_sent_as_bare(bench: Bench, way: str) -> None:
    """All bodies of tests/conformance: through wsgiref's handler, as the answer of a Flask view,
    and inside of a framework's hook."""
    run(bench, f"    sys.path.insert(0, {BODIES!r})\n    WAY = {way!r}" + """
    import os
    os.environ["CONFORMANCE_NOTES"] = notes = os.path.join(os.getcwd(), "notes")
    import bodies
    from wsgiref.handlers import SimpleHandler
    application = bodies.application
    if WAY == "flask":  # below the hook on Flask.wsgi_app, which begins the request here
        import flask
        app = flask.Flask("program")
        app.dispatch_request = lambda: bodies.application
        application = app
    def serve(kind, method):
        bodies_in, out, errors = io.BytesIO(b"input"), io.BytesIO(), io.StringIO()
        environ = {"REQUEST_METHOD": method, "PATH_INFO": "/" + kind.replace(" ", "_"), "SERVER_NAME": "x",
                   "SERVER_PORT": "1", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_X_CASE": kind, "CONTENT_LENGTH": "5",
                   "HTTP_HOST": "x"}
        class Handler(SimpleHandler):
            def get_stderr(self): return errors
            def log_exception(self, info): errors.write(repr([f.name for f in traceback.extract_tb(info[2])]))
        Handler(bodies_in, out, errors, environ, multithread=False).run(application)
        said = re.sub(rb"Date: [^\\r]*", b"", out.getvalue())
        return said, errors.getvalue()
    noted, KINDS = [], [kind for kind in bodies.KINDS if kind != "very large"]
    def by_case():
        gc.collect()
        said = {}
        with open(notes) as file:
            for line in file: said.setdefault(json.loads(line)[0], []).append(re.sub("0x[0-9a-f]+", "0x", line))
        os.remove(notes)
        noting._files.clear()
        noted.append(said)
    import noting
    compare({**{kind: lambda kind=kind: serve(kind, "GET") for kind in KINDS}, "noted": by_case}, collects=False)
    bare, recorded = noted
    for kind in KINDS: assert bare[kind] == recorded[kind], (kind, bare[kind], recorded[kind])
    """)


@pytest.mark.parametrize("way", ["application", "flask"])
def test_a_recorded_request_brings_the_next_collection_no_nearer(bench: Bench, way: str) -> None:
    """The collector counts containers made and freed: a request adds as many as bare, so that
    garbage of the program lives as long as bare."""
    run(bench, f"    sys.path.insert(0, {BODIES!r})\n    WAY = {way!r}" + """
    import os
    os.environ["CONFORMANCE_NOTES"] = os.devnull
    import bodies
    from wsgiref.handlers import SimpleHandler
    application = bodies.application
    if WAY == "flask":
        import flask
        application = flask.Flask("program")
        application.dispatch_request = lambda: bodies.application
    class Handler(SimpleHandler):
        def get_stderr(self): return io.StringIO()
        def log_exception(self, info): pass
    def serve(kind):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/" + kind.replace(" ", "_"), "SERVER_NAME": "x",
                   "SERVER_PORT": "1", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_X_CASE": kind, "HTTP_HOST": "x"}
        Handler(io.BytesIO(), io.BytesIO(), io.StringIO(), environ, multithread=False).run(application)
    def counted(kind):
        "Containers that 20 requests add, behind requests that fill all caches and a collection, which counts its own."
        for at in range(40):
            if at == 10: gc.collect()
            if at == 20: before = gc.get_count()[0]
            serve(kind)
        return gc.get_count()[0] - before
    cases = {kind: lambda kind=kind: counted(kind) for kind in ("list", "generator", "bad status", "raises", "write", "file wrapper")}
    compare(cases)
    assert dashcam.status()["requests"] >= 40 * len(cases), dashcam.status()["requests"]
    """)
