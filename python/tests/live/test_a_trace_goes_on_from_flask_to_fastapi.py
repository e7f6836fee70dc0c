"""A trace of OpenTelemetry's instrumentation through two real services: each capture has its part, and
each request once.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

from conftest import BIN, Bench, Waited, free_port, get, wait_for
from test_opentelemetry_feeds_dashcam import ON, slowest


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
