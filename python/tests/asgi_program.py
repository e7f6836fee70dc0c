"""For tests: programs that call applications as an ASGI server does."""

from __future__ import annotations

from conftest import Bench

BEGIN = """
    import asyncio, collections.abc, gc, inspect, sys, traceback, types, warnings, weakref
    import dashcam
    from dashcam import _native as native
    ended = []
    def when(name, seconds, error): ended.append((name.split("/")[-1], error))
    assert dashcam.start(slow="9s", when=when)
    START = {"type": "http.response.start", "status": 200, "headers": []}
    BODY = {"type": "http.response.body", "body": b"x"}
    PART = {"type": "http.response.body", "body": b"x", "more_body": True}
    reported = []
    async def send(message):
        if message.get("wait"): await asyncio.sleep(message["wait"])
        if "refuse" in message: raise message["refuse"]
        reported.append(message)
    async def receive(): return {"type": "http.request"}
    def call(application, path="/a", send=send):
        request = native.asgi_arrives("GET", path)
        assert request
        return native.asgi_serve(request, application, {"path": path}, receive, send)
    async def served(application, path="/a", send=send):
        "As a server awaits it, in a task of its own."
        async def run(): return await call(application, path, send)
        return await asyncio.ensure_future(run())
    def open_now(): return native.current_request() != 0
"""


def run(bench: Bench, code: str) -> None:
    """Runs a program, which reports its own errors."""
    result = bench.python(BEGIN + code)
    assert result.returncode == 0, result.stderr
