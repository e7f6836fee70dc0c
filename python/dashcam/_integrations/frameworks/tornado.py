"""Tornado: one request for each `_execute` of a handler, named by the rule that found the handler.
Websockets are none.
"""

from __future__ import annotations

import functools
import re
import weakref
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from dashcam._integrations import incoming

# The request that a rule matched last in this context, and the rule's pattern.
_matched: ContextVar[tuple[Any, str]] = ContextVar("dashcam_tornado_rule", default=(None, ""))
# An escaped character, a class of characters, the beginning of a group, any other character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?P<kind>\?(?:P<(?P<name>\w+)>|.))?|.", re.S)


def patch(native: Any, module: ModuleType) -> None:
    """Hooks `RequestHandler._execute`, whose coroutine becomes the task that serves the request."""

    def after(handling: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = self.request
        if not native.is_on() or asked.headers.get("Upgrade", "").lower() == "websocket":
            return None
        stream = getattr(asked.connection, "stream", None)
        socket = getattr(stream, "socket", None)
        current = native.request_arrives(asked.method, asked.path, True, socket, False)
        route = _route(self)
        if route is not None:
            native.request_named(current, asked.method, route)
        incoming.mapping(native, current, asked.headers)
        return native.handling(current, handling, lambda _result: self.get_status() >= 500)

    native.hook(module.RequestHandler, "_execute", after=after)


def patch_routes(native: Any, module: ModuleType) -> None:
    """Hooks `PathMatches.match`: the matched pattern is the request's route."""

    def after(found: Any, self: Any, request: Any) -> None:
        if found is not None:
            _matched.set((weakref.ref(request), self.regex.pattern))

    native.hook(module.PathMatches, "match", after=after)


def _route(handler: Any) -> str | None:
    """The template of the rule that matched. Tornado's own rule for all other paths is no route."""
    matched, pattern = _matched.get()
    if matched is None or matched() is not handler.request or type(handler).__name__ == "ErrorHandler":
        return None
    return template(pattern)


@functools.lru_cache(maxsize=1024)
def template(pattern: str) -> str:
    """`/price/{sku}` of `^/price/(?P<sku>[^/]+)$`; a group without a name is `{path}`. A pattern
    with more than text and groups remains unchanged, without its anchors."""
    pattern = pattern.lstrip("^")
    pattern = pattern[:-1] if pattern.endswith("$") and not pattern.endswith("\\$") else pattern
    text, depth = "", 0
    for token in _TOKEN.finditer(pattern):
        said = token[0]
        if said.startswith("("):
            if depth == 0 and token["kind"] and not (token["name"] or token["kind"] == "?:"):
                return pattern
            text += "" if depth else f"{{{token['name'] or 'path'}}}"
            depth += 1
        elif said == ")":
            depth -= 1
        elif depth == 0:
            if said[0] in "[]?*+|{}^$" or said[0] == "\\" and said[1:].isalnum():
                return pattern
            text += said[-1]
    return text if depth == 0 else pattern
