"""Twisted's web server: a request from when Twisted has the whole of it until its response is
finished, or its connection is lost. Websockets are none.

How it works: there is no task to follow, only callbacks. What `requestReceived` calls works for the
request, and so does everything that takes over the context there: coroutines, `inlineCallbacks`,
functions that are given to a thread pool.

Missing on purpose: a route, since a tree of resources has none; daphne's requests, which the
application's own hook begins (its task is known there); plain callbacks of deferreds.
"""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming


def patch(native: Any, module: ModuleType) -> None:
    """Hooks the begin and both ends of a request of `server.Site`. They are methods of its base; that
    one's own module is no place for a hook, since Twisted puts a proxy in its place.
    """
    requests: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def before(self: Any, command: bytes, path: bytes, version: bytes) -> None:
        if not native.is_on() or native.current_request() or not isinstance(self, module.Request):
            return
        headers = self.requestHeaders
        if (_first(headers, "upgrade") or "").lower() == "websocket":
            return
        asked = path.partition(b"?")[0].decode("latin-1")
        connection = getattr(getattr(self.channel, "transport", None), "socket", None)
        current = native.request_arrives(command.decode("latin-1"), asked, True, connection)
        requests[self] = current
        incoming.mapping(native, current, _headers(headers))

    def after(result: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        # The reactor's own context works for others now.
        current = requests.get(self, 0)
        if current and native.current_request() == current:
            native.request_enter(0)

    def finished(result: None, self: Any) -> None:
        native.request_end(requests.pop(self, 0), self.code >= 500)

    def lost(result: None, self: Any, reason: Any) -> None:
        native.request_end(requests.pop(self, 0))

    base = module.http.Request
    native.hook(base, "requestReceived", before=before, after=after, failed=after)
    native.hook(base, "finish", after=finished)
    native.hook(base, "connectionLost", after=lost)


def patch_threads(native: Any, module: ModuleType) -> None:
    """Hooks `ThreadPool.callInThreadWithCallback`, through which all work for a thread goes."""
    native.hook(module.ThreadPool, "callInThreadWithCallback", before=native.hand_over_third)


def _first(headers: Any, name: str) -> str | None:
    found = headers.getRawHeaders(name)
    return found[0] if found else None


def _headers(headers: Any) -> dict[str, str]:
    """The caller's trace; none if there are two."""
    found = {name: headers.getRawHeaders(name) or [] for name in ("traceparent", "tracestate")}
    if len(found["traceparent"]) != 1:
        return {}
    return {name: ",".join(values) for name, values in found.items()}
