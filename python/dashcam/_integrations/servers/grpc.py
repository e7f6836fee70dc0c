"""gRPC servers (grpcio): a request is one call of a method, named `/package.Service/Method`.

How it works: the synchronous server (`grpc._server`) finds the method and hands the call to its
pool in one thread, where the request begins; a thread of the pool runs the handler, and the request
ends there. `grpc.aio` is compiled; there, handlers are hooked as they are registered, and gRPC's
own callback at the end of a call ends the request.

What it promises: a failed request is one with a status that is the server's fault (`_FAULTS`, as
OpenTelemetry counts them), named by the exception's type if there is one, else by the status.

Missing on purpose: calls that gRPC answers itself (an unknown method, too many calls at once); the
time before gRPC's own threads hand a call to Python; generators that are no coroutines, under
`grpc.aio`.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Callable

from dashcam._integrations import incoming

# By their numbers in the protocol: in older versions (1.80) gRPC itself has no names for them.
_FAULTS = {2: "UNKNOWN", 4: "DEADLINE_EXCEEDED", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE",
           15: "DATA_LOSS"}
_BEHAVIORS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

# The method of the call that this thread hands over.
_method: ContextVar[str] = ContextVar("dashcam_grpc_method", default="?")
# The request of a call, in the call's own context.
_request: ContextVar[int] = ContextVar("dashcam_grpc_request", default=0)


def patch(native: Any, module: ModuleType) -> None:
    """Hooks the functions of `grpc._server` that hand a call over, that run it, and that end it with
    a status."""

    def before_call(event: Any, method: Any, *args: Any, **kwargs: Any) -> None:
        # Before 1.64 the handlers are here instead of the method.
        name = method.name() if hasattr(method, "name") else None
        _method.set(name or event.call_details.method.decode("utf-8", "replace"))

    def before_handing_over(event: Any, state: Any, *args: Any, **kwargs: Any) -> None:
        request = native.request_begin(_method.get()) if native.is_on() else 0
        if request:
            state.context.run(_request.set, request)
            incoming.mapping(native, request, dict(event.invocation_metadata or ()))

    def after_handing_over(future: Any, event: Any, state: Any, *args: Any, **kwargs: Any) -> None:
        native.request_enter(0)  # the pool works for it

    def not_handed_over(kind: str, event: Any, state: Any, *args: Any, **kwargs: Any) -> None:
        native.request_end(state.context.run(_request.get), kind or True)

    def before_running(*args: Any, **kwargs: Any) -> None:
        native.request_enter(_request.get())

    def after_running(result: None, event: Any, state: Any, *args: Any, **kwargs: Any) -> None:
        native.request_end(_request.get(), _fault(state.code))

    def failed_running(kind: str, *args: Any, **kwargs: Any) -> None:
        native.request_end(_request.get(), kind or True)

    def before_abort(state: Any, call: Any, code: Any, *args: Any, **kwargs: Any) -> None:
        request = native.current_request()
        fault = _fault(code if state.code is None else state.code)
        if request and fault:
            # An abort of the program's raises an exception without a type of its own.
            error = None if state.aborted else sys.exc_info()[0]
            native.request_failed(request, error.__name__ if error else fault)

    native.hook(module, "_handle_call", before=before_call)
    for name in _BEHAVIORS:
        native.hook(module, f"_handle_{name}", before=before_handing_over, after=after_handing_over, failed=not_handed_over)
    for name in ("_unary_response_in_pool", "_stream_response_in_pool"):
        native.hook(module, name, before=before_running, after=after_running, failed=failed_running)
    native.hook(module, "_abort", before=before_abort)


def patch_aio(native: Any, module: ModuleType) -> None:
    """Hooks where handlers are given to `grpc.aio.Server`: its `__init__`, and both functions that
    add handlers."""

    def found(handler: Any, self: Any, details: Any) -> Any:
        # The same object may serve a synchronous server, which has its own hooks.
        if handler is None or type(details).__module__ == "grpc._server":
            return None
        return _watched(native, details.method, handler)

    def watch(handlers: Any) -> None:
        # Each finds its methods anew for each call.
        for handler in handlers or ():
            holder = next((kind for kind in type(handler).__mro__ if "service" in vars(kind)), None)
            if holder is not None:
                native.hook(holder, "service", after=found)

    def before_init(self: Any, pool: Any, handlers: Any, *args: Any, **kwargs: Any) -> None:
        watch(handlers)

    def before_adding(self: Any, generic_rpc_handlers: Any) -> None:
        watch(generic_rpc_handlers)

    def before_registering(self: Any, service_name: str, method_handlers: Any) -> Any:
        own = {name: _watched(native, f"/{service_name}/{name}", handler) for name, handler in method_handlers.items()}
        return (self, service_name, own), {}

    native.hook(module.Server, "__init__", before=before_init)
    native.hook(module.Server, "add_generic_rpc_handlers", before=before_adding)
    if hasattr(module.Server, "add_registered_method_handlers"):
        native.hook(module.Server, "add_registered_method_handlers", before=before_registering)


def _watched(native: Any, method: str, handler: Any) -> Any:
    """The handler of a method, with functions that begin a request."""
    # Loaded here: 0.6 MiB that a process without gRPC does not need. asyncio loads it anyway.
    from inspect import isasyncgenfunction, iscoroutinefunction

    changed = {}
    for name in _BEHAVIORS:
        behavior = getattr(handler, name, None)
        is_generator = isasyncgenfunction(behavior)
        if behavior is not None and (is_generator or iscoroutinefunction(behavior)):
            changed[name] = _on_loop(native, method, behavior, is_generator)
        elif behavior is not None and name.endswith("_unary"):
            changed[name] = _in_pool(native, method, behavior)
    return handler._replace(**changed) if hasattr(handler, "_replace") else handler


def _begin(native: Any, method: str, context: Any, on_loop: bool) -> int:
    if not native.is_on() or native.current_request():
        return 0
    request: int = native.request_begin(method, on_loop)
    incoming.mapping(native, request, dict(context.invocation_metadata() or ()))
    return request


def _on_loop(native: Any, method: str, behavior: Callable[..., Any], is_generator: bool) -> Any:
    """A handler that runs in the task of its call: a coroutine, or a generator, whose end gRPC
    reports."""

    def after(handling: Any, asked: Any, context: Any) -> Any:
        request = _begin(native, method, context, True)
        if request and is_generator:
            context.add_done_callback(lambda done: native.request_end(request, _fault(done.code())))
            return None
        return native.handling(request, handling, lambda _response: _fault(context.code()),
                               lambda error: _fault(context.code()) if _is_decided(context) else type(error).__name__)

    return native.hooked(behavior, after=after)


def _in_pool(native: Any, method: str, behavior: Callable[..., Any]) -> Any:
    """A handler that is no coroutine runs in a thread of the server's pool. One that yields its
    responses is resumed in several: it is not watched. Its context does not say its status."""

    def before(asked: Any, context: Any) -> None:
        _request.set(_begin(native, method, context, False))

    def after(response: Any, asked: Any, context: Any) -> None:
        native.request_end(_request.get(), False)

    def failed(kind: str, asked: Any, context: Any) -> None:
        native.request_end(_request.get(), False if kind == "AbortError" else kind or True)

    return native.hooked(behavior, before=before, after=after, failed=failed)


def _is_decided(context: Any) -> bool:
    """Whether `context.abort` or `set_code` gave the call a status."""
    return _status(context.code()) != "OK"


def _fault(code: Any) -> bool | str:
    """The name of a status that is the server's fault."""
    status = _status(code)
    return status if status in _FAULTS.values() else False


def _status(code: Any) -> str:
    """The name of a status: `grpc.StatusCode`, gRPC's own enumeration of them or its number, or None
    for OK."""
    name = getattr(code, "name", None)
    if name is None and isinstance(code, int):
        name = _FAULTS.get(code)
    return str(name or "OK").upper()
