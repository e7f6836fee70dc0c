"""Slow requests go to a collector with their spans; a wrong address is refused with the remedy.

tests/otlp/run.py does it with a real collector; this needs none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import Bench


class Receiver(ThreadingHTTPServer):
    """Accepts everything, and keeps it."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str | None, bytes]] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Receiver)
        self.server.taken.append((self.path, self.headers.get("api-key"), body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A collector that listens."""
    server = Receiver()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_slow_requests_and_metrics_arrive_also_of_a_forked_child(bench: Bench, receiver: Receiver) -> None:
    url = f"http://127.0.0.1:{receiver.server_address[1]}"
    result = bench.python("""
        import os, time
        import dashcam
        dashcam.start(slow="1h, slow*>5ms", otlp_share=0)
        def work(name):
            with dashcam.request("slow " + name):
                with dashcam.span("inner of " + name):
                    time.sleep(0.02)
            with dashcam.request("quick " + name):
                pass
            dashcam.counter("orders of " + name).inc()
        work("parent")
        pid = os.fork()
        if pid == 0:
            work("child")
            dashcam.stop()
            os._exit(0)
        os.waitpid(pid, 0)
        while not dashcam.flush(): pass  # it gives up after two seconds
        reported = dashcam.status()["otlp"]
        assert reported["spans"]["sent"] == 2 and reported["chosen_requests"] == {"slow": 1, "failed": 0, "share": 0}, reported
    """, DASHCAM_OTLP="env", OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_HEADERS="api-key=a%20b")
    assert result.returncode == 0, result.stderr
    spans = b"".join(body for path, _, body in receiver.taken if path == "/v1/traces")
    metrics = b"".join(body for path, _, body in receiver.taken if path == "/v1/metrics")
    assert {key for _, key, _ in receiver.taken} == {"a b"}
    for name in (b"parent", b"child"):
        assert spans.count(b"slow " + name) == 1 and spans.count(b"inner of " + name) == 1
        assert b"orders of " + name in metrics
    assert b"quick" not in spans


def test_a_wrong_address_is_refused_in_code_and_reported_from_the_environment(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        for wrong in [dict(otlp="https://h:4318"), dict(otlp="h:4318"), dict(otlp_share=101)]:
            try:
                dashcam.start(**wrong)
            except ValueError as error:
                print(error)
        assert dashcam.start()
        assert dashcam.status()["otlp"] == "off"
    """, DASHCAM_OTLP="env", OTEL_EXPORTER_OTLP_ENDPOINT="http://h:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "TLS" in lines[0] and "http://HOST:PORT" in lines[1], lines
    assert lines[2] == 'otlp_share: found "101", wanted a number from 0 to 100'
    assert 'OTEL_EXPORTER_OTLP_PROTOCOL: found "grpc", wanted http/protobuf' in result.stderr
