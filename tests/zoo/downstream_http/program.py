"""An HTTP backend in another process, asked through urllib with a time limit. Rarely slow."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import subprocess  # noqa: E402
import urllib.request  # noqa: E402

BACKEND = """
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if "hard" in self.path:
            time.sleep(0.6)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
child = subprocess.Popen([sys.executable, "-S", "-c", BACKEND], stdout=subprocess.PIPE, env={})
port = int(child.stdout.readline())  # type: ignore[union-attr]


def ask_ledger(kind: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{kind}", timeout=5) as reply:
        return reply.read().decode()


def answer(n: int) -> str:
    return ask_ledger("hard" if service.SICK and n % 80 == 40 else "easy")


if __name__ == "__main__":
    try:
        service.flask(answer)
    finally:
        child.kill()
