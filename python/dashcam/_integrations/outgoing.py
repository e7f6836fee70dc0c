"""`traceparent` on what the program sends, with the setting `propagate`: http.client (with it urllib,
urllib3, requests), httpx, aiohttp's client, Celery's tasks.

A call that has the header already (OpenTelemetry's, or the program's own) keeps it. Outside of a
request or span nothing is added. `inject` is what programs call themselves.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, MutableMapping


def inject(native: Any, headers: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """Adds the present `traceparent` (and `tracestate`) unless one is there; returns `headers`."""
    if not any(str(name).lower() == "traceparent" for name in headers):
        parent = native.traceparent()
        if parent is not None:
            headers["traceparent"] = parent
            state = native.tracestate()
            if state is not None:
                headers["tracestate"] = state
    return headers


def patch_http_client(native: Any, module: ModuleType) -> None:
    """Wraps `HTTPConnection.putrequest`, `putheader` and `endheaders`."""
    connection = module.HTTPConnection
    put_request, put_header = connection.putrequest, connection.putheader
    end_headers = connection.endheaders

    @functools.wraps(put_request)
    def putrequest(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._dashcam_has_parent = False
        return put_request(self, *args, **kwargs)

    @functools.wraps(put_header)
    def putheader(self: Any, header: Any, *values: Any) -> Any:
        if len(header) == 11 and header.lower() in ("traceparent", b"traceparent"):
            self._dashcam_has_parent = True
        return put_header(self, header, *values)

    @functools.wraps(end_headers)
    def endheaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        if native.setting_is_on("propagate") and not getattr(self, "_dashcam_has_parent", True):
            for name, value in inject(native, {}).items():
                put_header(self, name, value)
        return end_headers(self, *args, **kwargs)

    connection.putrequest, connection.putheader = putrequest, putheader
    connection.endheaders = endheaders


def patch_httpx(native: Any, module: ModuleType) -> None:
    """Wraps `Client._send_single_request` and its asynchronous twin: one call a hop."""
    single = module.Client._send_single_request
    waiting = module.AsyncClient._send_single_request

    @functools.wraps(single)
    def _send_single_request(self: Any, request: Any) -> Any:
        if native.setting_is_on("propagate"):
            inject(native, request.headers)
        return single(self, request)

    @functools.wraps(waiting)
    async def _send_single_request_async(self: Any, request: Any) -> Any:
        if native.setting_is_on("propagate"):
            inject(native, request.headers)
        return await waiting(self, request)

    module.Client._send_single_request = _send_single_request
    module.AsyncClient._send_single_request = _send_single_request_async


def patch_aiohttp(native: Any, module: ModuleType) -> None:
    """Wraps `ClientRequest.__init__`, which settles the headers."""
    original = module.ClientRequest.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if native.setting_is_on("propagate"):
            inject(native, self.headers)

    module.ClientRequest.__init__ = __init__


def patch_celery(native: Any, module: ModuleType) -> None:
    """Wraps `Celery.send_task`, through which every task goes."""
    original = module.Celery.send_task

    @functools.wraps(original)
    def send_task(self: Any, *args: Any, **kwargs: Any) -> Any:
        if native.setting_is_on("propagate"):
            kwargs["headers"] = inject(native, dict(kwargs.get("headers") or {}))
        return original(self, *args, **kwargs)

    module.Celery.send_task = send_task
