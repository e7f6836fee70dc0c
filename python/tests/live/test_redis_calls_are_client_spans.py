"""OpenTelemetry's instrumentation of redis, against a real server where one is installed."""

from __future__ import annotations

import shutil

import pytest
from conftest import Bench, free_port
from test_opentelemetry_feeds_dashcam import ON, slowest


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server (Debian: redis-server)")
def test_redis_and_httpx_calls_are_client_spans(bench: Bench) -> None:
    port = free_port()
    bench.start([str(shutil.which("redis-server")), "--port", str(port), "--save", "",
                 "--bind", "127.0.0.1"])
    result = bench.python(f"""
        import time, dashcam
        dashcam.start(memory="2MiB")
        import httpx, redis
        from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
        from opentelemetry.instrumentation.redis import RedisInstrumentor
        RedisInstrumentor().instrument()
        HTTPXClientInstrumentor().instrument()
        client = redis.Redis(port={port})
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        with dashcam.request("GET /cart"):
            client.set("cart", "3 apples")
            assert client.get("cart") == b"3 apples"
            try:
                httpx.get("http://127.0.0.1:1/none")
            except httpx.ConnectError:
                pass
        client.close()
        print(dashcam.snap())
    """, **ON)
    assert result.returncode == 0, result.stderr
    reported = slowest(bench, result.stdout.strip())
    assert reported["name"] == "GET /cart"
    spans = [(s["name"], s["kind"], s["error"]) for s in reported["spans"]]
    assert spans == [("SET", "client", False), ("GET", "client", False), ("GET", "client", True)]
    assert reported["spans"][0]["attributes"]["db.statement"] == "SET ? ?"
    # OpenTelemetry does not see a request that dashcam began, so each call has a trace of its own:
    # recorded unchanged.
    assert {s["parent_id"] for s in reported["spans"]} == {reported["span_id"]}
