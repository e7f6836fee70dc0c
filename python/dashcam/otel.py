"""OpenTelemetry in: spans of `opentelemetry-instrumentation-*` packages go into the black box.

    import dashcam.otel
    dashcam.otel.install()           # or DASHCAM_OTEL=on; needs opentelemetry-sdk

How it works: a span processor. A span of kind SERVER or CONSUMER without a parent in this process
is a *request*; if dashcam's own integration has begun a request already, that request gets the
span's ids, name (`http.route`), status and attributes. All other spans become spans of the current
request, with their ids, parents, kinds, statuses, attributes, events and links.

What it promises: nothing is exported and nothing is sent; sampling decisions of the SDK hold
(processors do not get spans that are not sampled). Bounds are those of records: 8 attributes for
each span, the more useful ones first, texts of 64 bytes; 64 events and 16 links for each span;
everything that is cut is counted. `exception.stacktrace` is left out: stacks come from the sampler.
An error in here never reaches the host.

Missing on purpose: metrics, logs, baggage.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Optional

from dashcam import _native, _notices

try:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import SpanKind
except ImportError as error:
    raise ImportError(
        f"dashcam.otel: found no opentelemetry-sdk ({error}), wanted one: pip install opentelemetry-sdk"
    ) from error

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Event, ReadableSpan, Span

__all__ = ["DashcamSpanProcessor", "install"]

# At most this many open spans are remembered; further ones are not recorded, and counted.
_OPEN_MOST = 10_000
# Of more than 8 attributes, those whose keys begin with these are kept, in this order.
_INFORMATIVE = (
    "http.route", "http.response.status_code", "http.status_code", "error.type", "db.statement",
    "db.query.text", "url.full", "http.url", "url.path", "http.target", "server.address",
    "net.peer.name", "server.port", "net.peer.port", "http.request.method", "http.method",
    "db.system", "db.", "messaging.", "rpc.", "url.", "http.",
)
# A smaller difference between a span's time and the clock is the call's own duration.
_PROMPT_NS = 1_000_000


class DashcamSpanProcessor(SpanProcessor):
    """Records spans into dashcam's black box:
    `provider.add_span_processor(DashcamSpanProcessor())`.

    Start dashcam before or after; while it does not record, a span costs a call that returns at
    once.
    """

    def __init__(self) -> None:
        self._native: Any = _native
        # Span id -> the record that represents it. Plain dict operations are atomic.
        self._open: dict[tuple[int, int], Any] = {}
        # Requests that a span represents already.
        self._taken: dict[int, int] = {}

    def on_start(self, span: Span, parent_context: Optional[Context] = None) -> None:
        """Begins a request or a span."""
        try:
            if self._native.is_on():
                self._start(span)
        except Exception as error:  # noqa: BLE001 - never into the host
            if self._native.interrupts(error):
                raise
            _notices.notice(f"dashcam.otel: a span was not begun: {error!r}")

    def on_end(self, span: ReadableSpan) -> None:
        """Records its end."""
        try:
            context = span.context
            begun = context and self._open.pop((context.trace_id, context.span_id), None)
            if begun is not None:
                self._end(span, begun)
        except Exception as error:  # noqa: BLE001
            if self._native.interrupts(error):
                raise
            _notices.notice(f"dashcam.otel: a span was not recorded: {error!r}")

    def shutdown(self) -> None:
        """Nothing is held back."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held back."""
        return True

    def _start(self, span: Span) -> None:
        native, context = self._native, span.context
        if context is None or len(self._open) >= _OPEN_MOST:
            native.lost_span()
            return
        is_root = span.parent is None or span.parent.is_remote
        begun: Any = None
        if is_root and span.kind in (SpanKind.SERVER, SpanKind.CONSUMER):
            begun = self._begin_request(span)
        if begun is None:
            begun = native.span_open(span.name, _ago_ns(span.start_time))
        if begun is not None:
            self._open[context.trace_id, context.span_id] = begun

    def _begin_request(self, span: Span) -> Optional[_Request]:
        """None: the current request belongs to another span already."""
        native = self._native
        current = native.current_request()
        if current and current in self._taken:
            return None
        own = not current
        if own:
            name = _request_name(span.attributes or {}) or span.name
            current = native.request_begin(name, _on_loop())
            if not current:
                return None
        if span.context is not None:
            self._taken[current] = span.context.span_id
            native.request_identify(current, _identity(span))
        return _Request(current, own, threading.get_ident())

    def _end(self, span: ReadableSpan, begun: Any) -> None:
        native = self._native
        attributes = dict(span.attributes or {})
        events = [_event(event) for event in span.events]
        links = [
            (link.context.trace_id, link.context.span_id, link.context.is_remote,
             _plain(dict(link.attributes or {})))
            for link in span.links
        ]
        if not isinstance(begun, _Request):
            native.span_close(begun, span.name, _ago_ns(span.end_time), _identity(span),
                              _plain(attributes), events, links)
            return
        self._taken.pop(begun.id, None)
        name = _request_name(attributes)
        if name is not None or begun.own:
            native.request_rename(begun.id, name or span.name)
        native.request_ends_as(begun.id, _identity(span), _plain(attributes), events, links)
        error: bool | str = span.status.status_code.name == "ERROR"
        if error:
            kinds = [dict(e.attributes or {}).get("exception.type") for e in span.events]
            error = str(next((k for k in reversed(kinds) if k), "")).rpartition(".")[2] or True
            native.request_failed(begun.id, "" if error is True else error)
        if begun.own:
            native.request_end(begun.id, error)


class _Request:
    """A span that represents a request; `own`: the request was begun for it."""

    __slots__ = ("id", "own", "thread")

    def __init__(self, id: int, own: bool, thread: int) -> None:
        self.id, self.own, self.thread = id, own, thread


def _identity(span: Any) -> dict[str, Any]:
    """Ids, kind and status, in the native module's form."""
    parent = span.parent
    return {
        "trace": span.context.trace_id,
        "span": span.context.span_id,
        "parent": parent.span_id if parent is not None else 0,
        "remote": parent is not None and parent.is_remote,
        "sampled": bool(span.context.trace_flags.sampled),
        "kind": span.kind.name,
        "status": span.status.status_code.name,
        "message": span.status.description or "",
    }


def _request_name(attributes: Any) -> Optional[str]:
    """`GET /price/{sku}`: the route's template; None while it is not known."""
    route = attributes.get("http.route")
    method = attributes.get("http.request.method") or attributes.get("http.method")
    return f"{method} {route}" if route and method else None


def _event(event: Event) -> tuple[str, int, dict[str, Any]]:
    attributes = dict(event.attributes or {})
    attributes.pop("exception.stacktrace", None)
    return event.name, _ago_ns(event.timestamp), _plain(attributes)


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Values in the form of records, the more useful ones first if not all can be kept."""
    if len(attributes) > 8:
        def rank(key: str) -> int:
            ranks = (i for i, begin in enumerate(_INFORMATIVE) if key.startswith(begin))
            return next(ranks, len(_INFORMATIVE))

        attributes = {key: attributes[key] for key in sorted(attributes, key=rank)}
    plain = (str, bool, int, float)
    return {k: v if isinstance(v, plain) else ", ".join(map(str, v)) for k, v in attributes.items()}


def _ago_ns(epoch_ns: Optional[int]) -> int:
    """How long ago that was; 0: just now, or in the future."""
    ago = time.time_ns() - epoch_ns if epoch_ns is not None else 0
    return ago if ago > _PROMPT_NS else 0


def _on_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


# With the setting `otel` a new provider calls `install` itself.
_lock = threading.RLock()


def install(provider: Optional[TracerProvider] = None) -> TracerProvider:
    """Adds a processor to `provider`; without this argument to the provider that is set, and if
    none is set, to a new one, which is set. A provider that has a processor already remains
    unchanged. Returns the provider.

    Raises TypeError for a provider that is not of opentelemetry-sdk.
    """
    from opentelemetry import trace

    with _lock:
        if provider is None:
            found = trace.get_tracer_provider()
            if isinstance(found, trace.ProxyTracerProvider):
                found = TracerProvider()
                trace.set_tracer_provider(found)
        else:
            found = provider
        if not isinstance(found, TracerProvider):
            kind = f"{type(found).__module__}.{type(found).__qualname__}"
            raise TypeError(f"provider: found {kind}, wanted opentelemetry.sdk.trace.TracerProvider")
        if not getattr(found, "_dashcam", False):
            found.add_span_processor(DashcamSpanProcessor())
            found._dashcam = True  # type: ignore[attr-defined]
        return found
