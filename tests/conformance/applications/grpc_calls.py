"""gRPC: a synchronous server and one of grpc.aio in this program, with calls of every kind."""

from __future__ import annotations

import asyncio
from concurrent import futures
from typing import Any, AsyncIterator, Iterator

import grpc
from noting import kinds, note, stack

WORDS = (b"plain", b"abort", b"fault", b"code", b"raise")


def _ends(asked: bytes, context: Any) -> None:
    if asked == b"code":
        context.set_code(grpc.StatusCode.UNAVAILABLE)
    if asked == b"raise":
        raise LookupError("in a handler")


def buy(asked: bytes, context: Any) -> bytes:
    note("", "buy", stack(), kinds(context), sorted(context.invocation_metadata()))
    if asked in (b"abort", b"fault"):
        context.abort(grpc.StatusCode.NOT_FOUND if asked == b"abort" else grpc.StatusCode.INTERNAL, "aborted")
    _ends(asked, context)
    return b"bought"


def many(asked: bytes, context: Any) -> Iterator[bytes]:
    note("", "many", stack())
    yield b"one"
    _ends(asked, context)
    yield b"two"


def put(asked: Iterator[bytes], context: Any) -> bytes:
    return b"".join(asked)


def talk(asked: Iterator[bytes], context: Any) -> Iterator[bytes]:
    yield from asked


async def buy_on_loop(asked: bytes, context: Any) -> bytes:
    note("", "buy_on_loop", stack(), kinds(context), kinds(asyncio.current_task()))
    await asyncio.sleep(0)
    if asked in (b"abort", b"fault"):
        await context.abort(grpc.StatusCode.NOT_FOUND if asked == b"abort" else grpc.StatusCode.INTERNAL, "aborted")
    _ends(asked, context)
    return b"bought"


async def many_on_loop(asked: bytes, context: Any) -> AsyncIterator[bytes]:
    note("", "many_on_loop", stack())
    yield b"one"
    _ends(asked, context)
    yield b"two"


async def put_on_loop(asked: AsyncIterator[bytes], context: Any) -> bytes:
    return b"".join([part async for part in asked])


async def talk_on_loop(asked: AsyncIterator[bytes], context: Any) -> None:
    async for part in asked:
        await context.write(part)


class Keeps:
    """Keeps the handlers that it finds, as an interceptor of a program may."""

    def note(self, details: Any, handler: Any) -> Any:
        found = [behavior for behavior in handler or () if callable(behavior)]
        note("", "found", details.method, kinds(details), [(kinds(one), repr(one).partition(" at ")[0]) for one in found])
        return handler


class Intercepts(Keeps, grpc.ServerInterceptor):  # type: ignore[misc]
    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return self.note(handler_call_details, continuation(handler_call_details))


class InterceptsOnLoop(Keeps, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return self.note(handler_call_details, await continuation(handler_call_details))


def _handlers(service: str, buy: Any, many: Any, put: Any, talk: Any) -> Any:
    return grpc.method_handlers_generic_handler(service, {
        "Buy": grpc.unary_unary_rpc_method_handler(buy), "Many": grpc.unary_stream_rpc_method_handler(many),
        "Put": grpc.stream_unary_rpc_method_handler(put), "Talk": grpc.stream_stream_rpc_method_handler(talk)})


def _outcome(what: str, call: Any) -> None:
    try:
        note("", what, repr(call()))
    except grpc.RpcError as error:
        note("", what, error.code().name, error.details())


def _calls(port: int, service: str) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for word in WORDS:
            _outcome(f"Buy {word!r}", lambda: channel.unary_unary(f"/{service}/Buy")(word, timeout=60))
            _outcome(f"Many {word!r}", lambda: list(channel.unary_stream(f"/{service}/Many")(word, timeout=60)))
        _outcome("Put", lambda: channel.stream_unary(f"/{service}/Put")(iter(WORDS), timeout=60))
        _outcome("Talk", lambda: list(channel.stream_stream(f"/{service}/Talk")(iter(WORDS), timeout=60)))
        _outcome("Missing", lambda: channel.unary_unary(f"/{service}/Missing")(b"", timeout=60))


async def _on_loop() -> None:
    server = grpc.aio.server(futures.ThreadPoolExecutor(1), interceptors=(InterceptsOnLoop(),))
    server.add_generic_rpc_handlers((_handlers("shop.Loop", buy_on_loop, many_on_loop, put_on_loop, talk_on_loop),
                                     _handlers("shop.Mixed", buy, many, put, talk)))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    for service in ("shop.Loop", "shop.Mixed"):
        await asyncio.to_thread(_calls, port, service)
    await server.stop(None)


def main() -> None:
    """All of them."""
    server = grpc.server(futures.ThreadPoolExecutor(1), interceptors=(Intercepts(),))
    server.add_generic_rpc_handlers((_handlers("shop.Threads", buy, many, put, talk),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _calls(port, "shop.Threads")
    server.stop(None).wait()
    asyncio.run(_on_loop())


if __name__ == "__main__":
    main()
