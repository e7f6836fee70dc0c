"""cheroot, CherryPy's server: a request is a call of `Gateway.respond`, its wait for a thread
included.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dashcam._integrations import wsgi


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `Gateway.respond`, which a thread calls for each request."""
    wsgi.serves(native, module.Gateway, "respond", _asked, _failed)


def _asked(gateway: Any) -> wsgi.Asked:
    req = gateway.req
    headers = req.inheaders
    return wsgi.Asked(
        _text(req.method),
        _text(req.path) or "/",
        req.conn.socket,
        _text(headers.get(b"Traceparent")),
        _text(headers.get(b"Tracestate")),
    )


def _failed(gateway: Any) -> bool:
    return str(_text(gateway.req.status)).startswith("5")


def _text(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value
