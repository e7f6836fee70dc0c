"""`traceparent` on the program's outgoing calls, with the setting `propagate`: http.client (with it
urllib, urllib3, requests), httpx, aiohttp's client, Celery's tasks.

A call that has the header already (OpenTelemetry's, or the program's own) keeps it. Outside of a
request or span nothing is added. Programs that do it themselves call `inject`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, MutableMapping


def inject(native: Any, headers: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """Adds the current `traceparent` (and `tracestate`) unless there is one; returns `headers`."""
    if not any(str(name).lower() == "traceparent" for name in headers):
        parent = native.traceparent()
        if parent is not None:
            headers["traceparent"] = parent
            state = native.tracestate()
            if state is not None:
                headers["tracestate"] = state
    return headers


def patch_http_client(native: Any, module: ModuleType) -> None:
    """Hooks `HTTPConnection.endheaders`: the request's lines so far are in the buffer there."""
    put_header = module.HTTPConnection.putheader

    def before(self: Any, *args: Any, **kwargs: Any) -> None:
        lines = self._buffer
        if not native.setting_is_on("propagate") or not lines:
            return
        if not any(line[:12].lower() == b"traceparent:" for line in lines):
            for name, value in inject(native, {}).items():
                put_header(self, name, value)

    native.hook(module.HTTPConnection, "endheaders", before=before)


def patch_httpx(native: Any, module: ModuleType) -> None:
    """Hooks `Client._send_single_request` and its asynchronous twin: one call for each hop."""

    def before(self: Any, request: Any) -> None:
        if native.setting_is_on("propagate"):
            inject(native, request.headers)

    native.hook(module.Client, "_send_single_request", before=before)
    native.hook(module.AsyncClient, "_send_single_request", before=before)


def patch_aiohttp(native: Any, module: ModuleType) -> None:
    """Hooks `ClientRequest.__init__`, which prepares the headers."""

    def after(result: None, self: Any, *args: Any, **kwargs: Any) -> None:
        if native.setting_is_on("propagate"):
            inject(native, self.headers)

    native.hook(module.ClientRequest, "__init__", after=after)


def patch_celery(native: Any, module: ModuleType) -> None:
    """Hooks `Celery.send_task`, through which every task goes."""

    def before(*args: Any, **kwargs: Any) -> Any:
        if not native.setting_is_on("propagate"):
            return None
        headers = inject(native, dict(kwargs.get("headers") or {}))
        return args, {**kwargs, "headers": headers}

    native.hook(module.Celery, "send_task", before=before)
