"""Unmodified services under `dashcam run`: every request is one request, named METHOD route."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from conftest import BIN, DASHCAM, Bench, blames, free_port, get, wait_for

FLASK = """
    import os, time
    from flask import Flask
    app = Flask(__name__)
    @app.get("/price/<sku>")
    def price(sku): return sku
    @app.get("/wait")
    def wait():
        time.sleep(0.4)
        return "waited"
    if __name__ == "__main__":
        app.run("127.0.0.1", int(os.environ["PORT"]), threaded=True)
"""
PLAIN = """
    import os, time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            if self.path == "/wait": time.sleep(0.4)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
        def log_message(self, *a): pass
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
WSGIREF = """
    import os, time
    from wsgiref.simple_server import make_server
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/wait": time.sleep(0.4)
        start_response("200 OK", [])
        return (part for part in [b"o", b"k"])
    make_server("127.0.0.1", int(os.environ["PORT"]), app).serve_forever()
"""
WAITRESS = WSGIREF.replace("from wsgiref.simple_server import make_server", "from waitress import serve").replace(
    'make_server("127.0.0.1", int(os.environ["PORT"]), app).serve_forever()',
    'serve(app, host="127.0.0.1", port=int(os.environ["PORT"]))')
CHEROOT = WSGIREF.replace("from wsgiref.simple_server import make_server", "from cheroot.wsgi import Server").replace(
    'make_server("127.0.0.1", int(os.environ["PORT"]), app).serve_forever()',
    'Server(("127.0.0.1", int(os.environ["PORT"])), app).safe_start()')
PYRAMID = """
    import os, time
    from pyramid.config import Configurator
    from pyramid.response import Response
    from waitress import serve
    def price(request): return Response(request.matchdict["sku"])
    def wait(request):
        time.sleep(0.4)
        return Response("waited")
    with Configurator() as config:
        config.add_route("price", "price/{sku}")
        config.add_route("wait", "/wait")
        config.add_view(price, route_name="price")
        config.add_view(wait, route_name="wait")
        app = config.make_wsgi_app()
    serve(app, host="127.0.0.1", port=int(os.environ["PORT"]))
"""
GUNICORN = [str(BIN / "gunicorn"), "-b", "127.0.0.1:{port}", "--graceful-timeout", "30", "program:app"]

CASES = {
    "flask": (FLASK, [sys.executable, "program.py"], "GET /price/<sku>"),
    "http.server": (PLAIN, [sys.executable, "program.py"], "GET /price/{id}"),
    "wsgiref": (WSGIREF, [sys.executable, "program.py"], "GET /price/{id}"),
    "waitress": (WAITRESS, [sys.executable, "program.py"], "GET /price/{id}"),
    "cheroot": (CHEROOT, [sys.executable, "program.py"], "GET /price/{id}"),
    "flask, waitress": (FLASK, [str(BIN / "waitress-serve"), "--listen", "127.0.0.1:{port}", "program:app"],
                        "GET /price/<sku>"),
    "pyramid": (PYRAMID, [sys.executable, "program.py"], "GET /price/{sku}"),
    "gunicorn sync": (FLASK, [*GUNICORN, "-k", "sync"], "GET /price/<sku>"),
    "gunicorn gthread": (FLASK, [*GUNICORN, "-k", "gthread", "--threads", "4"], "GET /price/<sku>"),
    "gunicorn preload": (FLASK, [*GUNICORN, "-k", "gthread", "--preload"], "GET /price/<sku>"),
}


@pytest.mark.parametrize("case", CASES)
def test_requests_are_named_and_a_slow_one_makes_a_capture(bench: Bench, case: str) -> None:
    code, words, name = CASES[case]
    bench.write("program.py", code)
    port = free_port()
    command = [word.format(port=port) for word in words]
    # One request may be slow: on a busy machine others would be slow too, and be captured in its
    # place.
    service = bench.start([DASHCAM, "run", "--slow", "GET /wait>200ms", "--post", "200ms", "--", *command],
                          PORT=str(port))
    for _ in range(5):
        get(port, "/price/12345678")
    get(port, "/wait")
    captures = bench.wait_captures()
    errors = bench.stop(service)
    assert captures, errors
    shown = bench.show(captures[0])
    names = {r["name"]: r["count"] for r in shown["requests"]}
    assert names == {name: 5, "GET /wait": 1}, (names, errors)
    assert shown["meta"]["sources"]["stacks"] == "on"
    verdict = bench.dashcam("why", "captures")
    assert verdict.returncode == 0 and blames(verdict.stdout, "sleep"), verdict.stdout


@pytest.mark.parametrize("server", [
    'waitress.serve(app, host="127.0.0.1", port=port, threads=1)',
    'cheroot.wsgi.Server(("127.0.0.1", port), app, numthreads=1, max=1).safe_start()',
])
def test_a_request_that_waits_for_a_thread_of_the_server_is_slow_from_its_arrival(bench: Bench, server: str) -> None:
    bench.write("program.py", f"""
        import os, time
        import {server.split("(")[0].rsplit(".", 1)[0]}
        def app(environ, start_response):
            if environ["PATH_INFO"] == "/stir":
                open("stirring", "w").close()
                time.sleep(1)
            start_response("200 OK", [("Content-Length", "2"), ("Connection", "close")])
            return [b"ok"]
        port = int(os.environ["PORT"])
        {server}
    """)
    port = free_port()
    service = bench.start([DASHCAM, "run", "--slow", "GET /late>200ms", "--post", "200ms", "--",
                           sys.executable, "program.py"], PORT=str(port))
    for _ in range(5):
        get(port, "/late")
    stir = threading.Thread(target=get, args=(port, "/stir"))
    stir.start()
    wait_for("the one thread to be kept", (bench.folder / "stirring").exists)
    get(port, "/late")
    stir.join()
    captures = bench.wait_captures()
    errors = bench.stop(service)
    assert captures, errors
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, "pool-wait", "app()"), verdict


PRODUCT = """
    import time
    from flask import Flask
    from stockroom.rates import refresh
    app = Flask(__name__)
    @app.get("/wait")
    def wait():
        refresh()
        return "waited"
"""
RATES = """
    import time
    def refresh():
        time.sleep(0.4)
"""
CONSOLE_SCRIPT = """
    import os
    import sys
    from stockroom.cli import main
    if __name__ == "__main__":
        sys.exit(main())
"""
CLI = """
    import os
    def main():
        from stockroom.web import app
        app.run("127.0.0.1", int(os.environ["PORT"]), threaded=True)
"""


@pytest.mark.parametrize("words", [
    [sys.executable, "bin/stockroom"],
    [sys.executable, "-m", "stockroom.cli"],
    [str(BIN / "gunicorn"), "-b", "127.0.0.1:{port}", "stockroom.web:app"],
])
def test_an_installed_product_is_the_users_code(bench: Bench, words: list[str]) -> None:
    site = bench.folder / "site-packages" / "stockroom"
    site.mkdir(parents=True)
    (bench.folder / "bin").mkdir()
    for name, code in {"__init__": "", "web": PRODUCT, "rates": RATES, "cli": CLI + "    if __name__ == '__main__': main()"}.items():
        bench.write(f"site-packages/stockroom/{name}.py", code)
    bench.write("bin/stockroom", CONSOLE_SCRIPT)
    port = free_port()
    command = [word.format(port=port) for word in words]
    service = bench.start([DASHCAM, "run", "--slow", "GET /wait>200ms", "--post", "200ms", "--", *command],
                          PORT=str(port), PYTHONPATH=str(site.parent))
    get(port, "/wait")
    assert bench.wait_captures(), bench.stop(service)
    bench.stop(service)
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, "sleep", "rates.py:", "refresh()", "wait()"), verdict


def test_a_helper_program_of_the_service_is_left_alone(bench: Bench) -> None:
    bench.write("helper.py", "import sys; print('dashcam' in sys.modules)")
    bench.write("program.py", """
        import subprocess, sys
        print(subprocess.run([sys.executable, "helper.py"], capture_output=True, text=True).stdout)
        print('dashcam' in sys.modules)
    """)
    result = bench.dashcam("run", "--", sys.executable, "program.py")
    assert result.stdout.split() == ["False", "True"], result.stderr


def test_a_port_in_use_is_the_services_own_error(bench: Bench) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        bench.write("program.py", PLAIN)
        result = bench.dashcam("run", "--", sys.executable, "program.py", PORT=str(port))
    assert result.returncode == 1 and "Address already in use" in result.stderr
    assert not list(Path(bench.folder).glob("captures/*"))


def test_the_users_own_sitecustomize_still_runs(bench: Bench) -> None:
    (bench.folder / "own").mkdir()
    bench.write("own/sitecustomize.py", "print('own')")
    bench.write("program.py", "import sys; print('dashcam' in sys.modules)")
    result = bench.dashcam("run", "--", sys.executable, "program.py",
                           PYTHONPATH=str(bench.folder / "own"))
    assert result.stdout.split() == ["own", "True"] and result.stderr == "", result.stderr
