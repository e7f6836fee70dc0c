"""gRPC servers, synchronous and aio: a call is a request with its method's name, an error if its status is the
server's fault, and neither the handler nor its client sees a difference."""

from __future__ import annotations

import pytest

from conftest import Bench

pytest.importorskip("grpc")

SERVICE = """
    import asyncio, inspect, sys, traceback
    from concurrent import futures
    import grpc

    def describe(context, frame):
        "What a handler sees of itself: its callers, and what its context is."
        return repr(([f.f_code.co_name for f, _ in traceback.walk_stack(frame)], type(context).__name__)).encode()

    def buy(asked, context):
        if asked == b"abort": context.abort(grpc.StatusCode.NOT_FOUND, "none left")
        if asked == b"fault": context.abort(grpc.StatusCode.INTERNAL, "out of order")
        if asked == b"code": context.set_code(grpc.StatusCode.UNAVAILABLE)
        if asked == b"raise": raise LookupError("no such thing")
        return describe(context, sys._getframe())
    def many(asked, context):
        yield b"1"
        if asked == b"raise": raise LookupError("no such thing")
        yield b"2"
    def put(asked, context): return b"".join(asked)
    def talk(asked, context): yield from asked

    async def buy_on_loop(asked, context):
        await asyncio.sleep(0)
        if asked == b"abort": await context.abort(grpc.StatusCode.NOT_FOUND, "none left")
        if asked == b"fault": await context.abort(grpc.StatusCode.INTERNAL, "out of order")
        if asked == b"code": context.set_code(grpc.StatusCode.UNAVAILABLE)
        if asked == b"raise": raise LookupError("no such thing")
        return describe(context, sys._getframe())
    async def many_on_loop(asked, context):
        yield b"1"
        if asked == b"raise": raise LookupError("no such thing")
        yield b"2"
    async def put_on_loop(asked, context): return b"".join([part async for part in asked])
    async def talk_on_loop(asked, context):
        async for part in asked: await context.write(part)

    def handlers(buy, many, put, talk):
        return {"Buy": grpc.unary_unary_rpc_method_handler(buy), "Many": grpc.unary_stream_rpc_method_handler(many),
                "Put": grpc.stream_unary_rpc_method_handler(put), "Talk": grpc.stream_stream_rpc_method_handler(talk)}
    def add(server, service, methods, registered):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        if registered and hasattr(server, "add_registered_method_handlers"):
            server.add_registered_method_handlers(service, methods)
        return server.add_insecure_port("127.0.0.1:0")

    def outcome(call):
        try: return call()
        except grpc.RpcError as error: return error.code().name, error.details()
    def calls(port, service):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            buy, many = channel.unary_unary(f"/{service}/Buy"), channel.unary_stream(f"/{service}/Many")
            words = (b"ok", b"abort", b"fault", b"code", b"raise")
            return [*(outcome(lambda: buy(word, timeout=90)) for word in words),
                    *(outcome(lambda: list(many(word, timeout=90))) for word in (b"ok", b"raise")),
                    channel.stream_unary(f"/{service}/Put")(iter([b"a", b"b"]), timeout=90),
                    list(channel.stream_stream(f"/{service}/Talk")(iter([b"a", b"b"]), timeout=90)),
                    outcome(lambda: channel.unary_unary(f"/{service}/Missing")(b"", timeout=90))]

    def on_threads(registered):
        server = grpc.server(futures.ThreadPoolExecutor(2))
        port = add(server, "shop.Threads", handlers(buy, many, put, talk), registered)
        server.start()
        seen = calls(port, "shop.Threads")
        server.stop(None).wait()
        return seen
    async def on_loop(registered):
        server = grpc.aio.server(futures.ThreadPoolExecutor(2))
        port = add(server, "shop.Loop", handlers(buy_on_loop, many_on_loop, put_on_loop, talk_on_loop), registered)
        add(server, "shop.Mixed", handlers(buy, many, put, talk), False)
        await server.start()
        seen = [await asyncio.to_thread(calls, port, service) for service in ("shop.Loop", "shop.Mixed")]
        await server.stop(None)
        return seen
    def all_calls(registered):
        return [on_threads(registered), asyncio.run(on_loop(registered))]
"""

BUY = ["", "", "error", "error", "error"]


@pytest.mark.parametrize("registered", [False, True])
def test_calls_are_requests_and_nothing_else_changes(bench: Bench, registered: bool) -> None:
    bench.write("service.py", SERVICE)
    result = bench.python(f"""
        import logging, subprocess, sys
        logging.disable(logging.CRITICAL)  # what gRPC logs of the handlers' exceptions
        bare = subprocess.run([sys.executable, "-c", "import logging, service; logging.disable(50); print(service.all_calls({registered}))"],
                              capture_output=True, text=True, check=True).stdout.strip()
        import dashcam
        assert dashcam.start(slow="90s")
        import service
        recorded = repr(service.all_calls({registered}))
        assert recorded == bare, (recorded, bare)
        assert dashcam.status()["integrations"] == [] and dashcam.status()["open_requests"] == 0, dashcam.status()
        import pyarrow
        requests = pyarrow.table(dashcam.open(dashcam.snap()).tables["requests"]).to_pylist()
        for request in requests: print(request["name"], "error" if request["is_error"] else "")
    """)
    assert result.returncode == 0, result.stderr
    found = sorted(line.rstrip() for line in result.stdout.splitlines())

    def wanted(service: str, buy: list[str], many: list[str], others: list[str]) -> list[str]:
        lines = [f"/shop.{service}/Buy {end}" for end in buy] + [f"/shop.{service}/Many {end}" for end in many]
        return [line.rstrip() for line in [*lines, *(f"/shop.{service}/{name}" for name in others)]]

    assert found == sorted([
        *wanted("Threads", BUY, ["", "error"], ["Put", "Talk"]),
        # gRPC reports to nobody that a generator raised.
        *wanted("Loop", BUY, ["", ""], ["Put", "Talk"]),
        # There a handler that is no coroutine cannot be asked for its status, nor watched if it yields.
        *wanted("Mixed", ["", "", "", "", "error"], [], ["Put"]),
    ])


def test_a_call_has_its_wait_for_a_thread_and_its_callers_trace(bench: Bench) -> None:
    result = bench.python("""
        from concurrent import futures
        import threading
        import dashcam
        assert dashcam.start(slow="90s")
        import grpc
        entered, go = threading.Event(), threading.Event()
        def buy(asked, context):
            entered.set()
            go.wait(90)
            return dashcam.trace_id().encode()
        server = grpc.server(futures.ThreadPoolExecutor(1))
        handler = grpc.method_handlers_generic_handler("shop", {"Buy": grpc.unary_unary_rpc_method_handler(buy)})
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        trace = "1" * 32
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            buys = [channel.unary_unary("/shop/Buy").future(b"", metadata=(("traceparent", f"00-{trace}-{'2' * 16}-01"),))
                    for _ in range(2)]
            entered.wait(90)
            # Both have begun, one of them waits for the only thread.
            while dashcam.status()["open_requests"] < 2: threading.Event().wait(0.01)
            go.set()
            assert [buy.result(90).decode() for buy in buys] == [trace, trace]
        server.stop(None).wait()
        import pyarrow
        tasks = pyarrow.table(dashcam.open(dashcam.snap()).tables["tasks"]).to_pylist()
        print(len(tasks), len({task["request_id"] for task in tasks}))
    """)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "2 2\n"
