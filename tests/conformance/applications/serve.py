"""Servers without a command of their own, or with one that does too much: `serve.py SERVER PORT
[MODULE]`.
"""

from __future__ import annotations

import importlib
import logging
import re
import signal
import sys
import threading
from typing import Any

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s %(message)s")
kind, port = sys.argv[1], int(sys.argv[2])
application: Any = importlib.import_module(sys.argv[3]).application if len(sys.argv) > 3 else None


def _until_the_signal(serve: Any, stop: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *given: threading.Thread(target=stop).start())
    serve()


if kind == "wsgiref":
    from wsgiref.simple_server import make_server

    server: Any = make_server("127.0.0.1", port, application)
    _until_the_signal(server.serve_forever, server.shutdown)
elif kind == "werkzeug":
    from werkzeug.serving import make_server as make

    server = make("127.0.0.1", port, application, threaded=True)
    _until_the_signal(server.serve_forever, server.shutdown)
elif kind == "waitress":
    import waitress

    signal.signal(signal.SIGTERM, lambda *given: sys.exit(0))
    waitress.serve(application, host="127.0.0.1", port=port, threads=2)
elif kind == "cheroot":
    from cheroot.wsgi import Server

    server = Server(("127.0.0.1", port), application, numthreads=2)
    server.error_log = lambda msg="", level=20, traceback=False: logging.getLogger("cheroot").log(
        level, msg, exc_info=traceback)
    _until_the_signal(server.start, server.stop)
elif kind == "gevent.pywsgi":
    from gevent import monkey

    monkey.patch_all()
    import gevent
    from gevent.pywsgi import WSGIServer

    server = WSGIServer(("127.0.0.1", port), application)
    gevent.signal_handler(signal.SIGTERM, server.stop)
    server.serve_forever()
elif kind == "eventlet":
    import eventlet

    eventlet.monkey_patch()
    import eventlet.wsgi

    def without_process_id(record: logging.LogRecord) -> bool:
        record.msg = re.sub(r"^\(\d+\) ", "", str(record.msg))
        return True

    log = logging.getLogger("eventlet")
    log.addFilter(without_process_id)
    signal.signal(signal.SIGTERM, lambda *given: sys.exit(0))
    eventlet.wsgi.server(eventlet.listen(("127.0.0.1", port)), application, log=log)
elif kind == "http.server":
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from noting import kinds, note, stack, threads

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            note(self.headers.get("X-Case", ""), "do_GET", stack(), threads(), sorted(vars(self)),
                 kinds(self.parse_request), kinds(self.handle_one_request))
            if self.path == "/raises":
                raise LookupError("in a handler")
            if self.path == "/refuses":
                return self.send_error(403)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        do_HEAD = do_GET

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    _until_the_signal(server.serve_forever, server.shutdown)
else:
    raise SystemExit(f"serve.py: found {kind!r}, wanted a server")
