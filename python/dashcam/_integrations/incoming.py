"""The caller's trace, from the headers of a request: `traceparent` and `tracestate`.

Validity is decided in Rust (crates/format/src/traceparent.rs). A request with two `traceparent`
headers, or with one that is not valid, begins a trace of its own. Requests without the header cost
a lookup in their headers and no more. WSGI's and ASGI's headers are read in Rust, too.
"""

from __future__ import annotations

from typing import Any, Mapping


def mapping(native: Any, request: int, headers: Mapping[str, Any]) -> None:
    """From headers in a mapping that ignores case, or with lower-case names."""
    parent = headers.get("traceparent")
    if parent and request:
        every = getattr(headers, "get_all", None) or getattr(headers, "getall", None)
        if every is not None:
            if len(every("traceparent")) != 1:
                return
            state = ",".join(every("tracestate", []))
        else:
            state = headers.get("tracestate") or ""
        _record(native, request, parent, state)


def _record(native: Any, request: int, parent: Any, state: Any) -> None:
    # Nothing that a client sends may become an error of ours.
    if isinstance(parent, str) and isinstance(state, str):
        try:
            native.request_continue(request, parent, state)
        except UnicodeEncodeError:  # lone surrogates
            pass
