"""The spans of the real `opentelemetry-instrumentation-*` packages are in the capture, and each
request once.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import BIN, Bench, Waited, free_port, get, wait_for
from tiny_postgres import TinyPostgres

ON = {"DASHCAM_OTEL": "on", "PYTHONWARNINGS": "ignore"}


def slowest(bench: Bench, path: Path | str) -> dict[str, Any]:
    """The slowest request of a capture, with its spans, events and links."""
    result = bench.dashcam("show", "--slowest", "--json", str(path))
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def serve(bench: Bench, words: list[str], out: str, **env: str) -> "subprocess.Popen[str]":
    """A service under `dashcam run` that captures each request of the shop over 150 ms: the first
    requests of a process, which load code, may be slow and be captured in their place."""
    return bench.start(
        [str(BIN / "dashcam"), "run", "--slow", "GET /shop*>150ms, GET /price*>150ms", "--post", "300ms", "--out", out,
         "--memory", "4MiB", "--", *words], **{**ON, **env})


FLASK = """
    import sys, time
    from opentelemetry.instrumentation.flask import FlaskInstrumentor
    from opentelemetry.instrumentation.requests import RequestsInstrumentor
    import requests
    FlaskInstrumentor().instrument()  # replaces flask.Flask
    RequestsInstrumentor().instrument()
    from flask import Flask
    app = Flask(__name__)

    @app.get("/shop/<int:sku>")
    def shop(sku):
        time.sleep(0.2)
        return requests.get(f"http://127.0.0.1:{sys.argv[2]}/price/{sku}").text

    @app.get("/")
    def root():
        return "up"

    app.run(port=int(sys.argv[1]))
"""

FASTAPI = """
    import asyncio, sys
    import httpx, sqlite3, uvicorn
    from fastapi import FastAPI
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.instrumentation.sqlite3 import SQLite3Instrumentor
    from opentelemetry import trace
    SQLite3Instrumentor().instrument()
    app = FastAPI()

    @app.get("/price/{sku}")
    async def price(sku: int):
        with trace.get_tracer("shop").start_as_current_span("look up") as span:
            span.add_event("cache.miss", {"key": f"k{sku}"})
            database = sqlite3.connect(":memory:")
            cursor = database.cursor()
            cursor.execute("select 1 + 1")
            await asyncio.sleep(0.2)
            try:
                raise KeyError("no such sku")
            except KeyError as error:
                span.record_exception(error)
                span.set_status(trace.StatusCode.ERROR, "not found")
        return sku

    @app.get("/")
    async def root():
        return "up"

    FastAPIInstrumentor.instrument_app(app)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""


def test_a_trace_goes_on_from_flask_to_fastapi(bench: Bench) -> None:
    front, back = free_port(), free_port()
    bench.write("front.py", FLASK)
    bench.write("back.py", FASTAPI)
    services = [serve(bench, [sys.executable, "front.py", str(front), str(back)], "front"),
                serve(bench, [sys.executable, "back.py", str(back)], "back")]
    get(back)
    get(front)
    assert get(front, "/shop/77") == "77"
    with contextlib.suppress(Waited):
        wait_for("a capture of each", lambda: bench.captures("front") and bench.captures("back"))
    errors = [bench.stop(service) for service in services]
    assert bench.captures("front") and bench.captures("back"), errors

    sent = slowest(bench, bench.captures("front")[0])
    assert sent["name"] == "GET /shop/<int:sku>"
    assert (sent["kind"], sent["parent_id"], sent["sampled"]) == ("server", "0" * 16, True)
    calls = [s for s in sent["spans"] if s["kind"] == "client"]
    assert [(s["name"], s["parent_id"], s["trace_id"]) for s in calls] == [
        ("GET", sent["span_id"], sent["trace_id"])]
    assert calls[0]["attributes"]["http.url"].endswith("/price/77"), calls

    got = slowest(bench, bench.captures("back")[0])
    assert got["name"] == "GET /price/{sku}"
    assert got["trace_id"] == sent["trace_id"]
    assert (got["parent_id"], got["remote_parent"]) == (calls[0]["span_id"], True)
    assert got["attributes"]["http.route"] == "/price/{sku}"
    spans = {s["name"]: s for s in got["spans"]}
    assert {"look up", "select"} <= set(spans), set(spans)
    assert spans["look up"]["parent_id"] == got["span_id"]
    assert spans["select"]["parent_id"] == spans["look up"]["span_id"]
    assert spans["select"]["attributes"]["db.statement"] == "select 1 + 1"
    assert {s["trace_id"] for s in got["spans"]} == {got["trace_id"]}
    assert (spans["look up"]["status"], spans["look up"]["message"]) == ("error", "not found")
    assert spans["look up"]["error"] is True
    events = {e["name"]: e["attributes"] for e in got["events"]}
    assert events["cache.miss"] == {"key": "k77"}
    assert events["exception"]["exception.type"] == "KeyError"
    assert events["exception"]["exception.message"] == "'no such sku'"
    # One request for each, though two integrations saw it.
    for folder, names in (("front", {"GET /": 1, "GET /shop/<int:sku>": 1}),
                          ("back", {"GET /": 1, "GET /price/{sku}": 1})):
        shown = bench.show(bench.captures(folder)[0])["requests"]
        assert {r["name"]: r["count"] for r in shown} == names
    why = bench.dashcam("why", str(bench.captures("back")[0]))
    assert f"Trace of the slowest: {got['trace_id']}." in why.stdout, why.stdout
    assert all("Traceback" not in text for text in errors), errors


def test_without_an_integration_of_ours_a_server_span_is_a_request(bench: Bench) -> None:
    result = bench.python("""
        import json, dashcam, dashcam.otel
        from opentelemetry import trace
        from opentelemetry.trace import SpanKind
        dashcam.start(memory="2MiB")
        provider = dashcam.otel.install()
        assert dashcam.otel.install() is provider is trace.get_tracer_provider()
        assert dashcam.otel.install(provider) is provider
        tracer = trace.get_tracer("jobs")
        earlier = tracer.start_span("earlier")
        with tracer.start_as_current_span("take", kind=SpanKind.CONSUMER,
                                          links=[trace.Link(earlier.get_span_context(), {"why": "fan-in"})]):
            with dashcam.span("own"):
                with tracer.start_as_current_span("call", kind=SpanKind.PRODUCER) as span:
                    span.set_attributes({f"a{i}": "x" * 70 for i in range(9)} | {"http.route": "/r"})
                    for _ in range(70):
                        span.add_event("tick")
                    still = dashcam.snap()
        with tracer.start_as_current_span("alone", kind=SpanKind.CLIENT):
            pass
        earlier.end()
        try:
            dashcam.otel.install(42)
        except TypeError as error:
            assert "found builtins.int, wanted opentelemetry.sdk.trace.TracerProvider" in str(error)
        status = dashcam.status()
        assert status["integrations"] == [], status["integrations"]
        print(json.dumps([str(still), str(dashcam.snap()), status["losses"]]))
    """, PYTHONWARNINGS="ignore")
    assert result.returncode == 0, result.stderr
    still, path, losses = json.loads(result.stdout)
    told = slowest(bench, path)
    assert (told["name"], told["kind"]) == ("take", "consumer")
    assert [(link["span_id"], link["attributes"]) for link in told["links"]] == [
        (told["span_id"], {"why": "fan-in"})]
    spans = {s["name"]: s for s in told["spans"]}
    assert set(spans) == {"own", "call"}
    assert spans["call"]["kind"] == "producer"
    assert spans["call"]["attributes"]["http.route"] == "/r", "the telling ones first"
    assert len(spans["call"]["attributes"]) == 8
    assert sum(e["name"] == "tick" for e in told["events"]) == 64
    assert losses["span_events_cut"] == 6
    assert losses["attributes_cut"] >= 7
    # Open ones, with their age.
    shown = bench.show(still)
    assert {s["name"] for s in shown["open_spans"]} >= {"call", "earlier"}
    assert all(s["age_ms"] > 0 for s in shown["open_spans"])
    assert shown["open_requests"] == 1


def test_the_sdk_may_come_first_and_an_error_in_a_span_is_an_error_of_its_request(bench: Bench) -> None:
    result = bench.python("""
        import json
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace import SpanKind
        import dashcam
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
        from dashcam.otel import DashcamSpanProcessor
        provider.add_span_processor(DashcamSpanProcessor())
        tracer = trace.get_tracer("t")
        with tracer.start_as_current_span("before", kind=SpanKind.SERVER):
            pass  # nothing records yet
        dashcam.start(memory="2MiB", on_error="ValueError", post="50ms")
        try:
            with tracer.start_as_current_span("failing", kind=SpanKind.SERVER):
                raise ValueError("wrong")
        except ValueError:
            pass
        provider.shutdown()
        print(dashcam.snap())
    """, PYTHONWARNINGS="ignore")
    assert result.returncode == 0, result.stderr
    told = slowest(bench, result.stdout.strip())
    assert (told["name"], told["error"], told["status"]) == ("failing", True, "error")
    assert told["message"] == "ValueError: wrong"
    assert [e["attributes"] for e in told["events"]] == [
        {"exception.type": "ValueError", "exception.message": "wrong", "exception.escaped": "False"}]


def test_queries_of_psycopg_are_client_spans(bench: Bench) -> None:
    server = TinyPostgres()
    result = bench.python(f"""
        import dashcam
        dashcam.start(memory="2MiB")
        from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
        PsycopgInstrumentor().instrument()
        import psycopg
        with psycopg.connect("host=127.0.0.1 port={server.port} dbname=shop user=till password=x") as db:
            with dashcam.request("GET /cart"):
                cursor = db.cursor()
                cursor.execute("select answer from questions where id = %s", (7,))
                assert cursor.fetchone() == (42,)
                try:
                    cursor.execute("select broken")
                except psycopg.errors.UndefinedTable:
                    db.rollback()
        print(dashcam.snap())
    """, **ON)
    server.close()
    assert result.returncode == 0, result.stderr
    assert "select answer from questions where id = $1" in server.queries, server.queries
    told = slowest(bench, result.stdout.strip())
    assert told["name"] == "GET /cart"
    spans = [(s["name"], s["kind"], s["error"]) for s in told["spans"]]
    assert spans == [("select", "client", False), ("select", "client", True)]
    attributes = told["spans"][0]["attributes"]
    assert attributes["db.statement"] == "select answer from questions where id = %s"
    assert (attributes["db.system"], attributes["db.name"]) == ("postgresql", "shop")
    # As for Redis: the trace is OpenTelemetry's own, the request is dashcam's.
    assert {s["parent_id"] for s in told["spans"]} == {told["span_id"]}
