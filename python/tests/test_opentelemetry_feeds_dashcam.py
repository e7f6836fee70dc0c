"""The spans of the real `opentelemetry-instrumentation-*` packages are in the capture, and each
request once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import Bench
from tiny_postgres import TinyPostgres

ON = {"DASHCAM_OTEL": "on", "PYTHONWARNINGS": "ignore"}


def slowest(bench: Bench, path: Path | str) -> dict[str, Any]:
    """The slowest request of a capture, with its spans, events and links."""
    result = bench.dashcam("show", "--slowest", "--json", str(path))
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


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
    reported = slowest(bench, path)
    assert (reported["name"], reported["kind"]) == ("take", "consumer")
    assert [(link["span_id"], link["attributes"]) for link in reported["links"]] == [
        (reported["span_id"], {"why": "fan-in"})]
    spans = {s["name"]: s for s in reported["spans"]}
    assert set(spans) == {"own", "call"}
    assert spans["call"]["kind"] == "producer"
    assert spans["call"]["attributes"]["http.route"] == "/r", "the telling ones first"
    assert len(spans["call"]["attributes"]) == 8
    assert sum(e["name"] == "tick" for e in reported["events"]) == 64
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
    reported = slowest(bench, result.stdout.strip())
    assert (reported["name"], reported["error"], reported["status"]) == ("failing", True, "error")
    assert reported["message"] == "ValueError: wrong"
    assert [e["attributes"] for e in reported["events"]] == [
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
    reported = slowest(bench, result.stdout.strip())
    assert reported["name"] == "GET /cart"
    spans = [(s["name"], s["kind"], s["error"]) for s in reported["spans"]]
    assert spans == [("select", "client", False), ("select", "client", True)]
    attributes = reported["spans"][0]["attributes"]
    assert attributes["db.statement"] == "select answer from questions where id = %s"
    assert (attributes["db.system"], attributes["db.name"]) == ("postgresql", "shop")
    # As for Redis: the trace is OpenTelemetry's own, the request is dashcam's.
    assert {s["parent_id"] for s in reported["spans"]} == {reported["span_id"]}
