"""Calls to other services as spans, with the setting `calls`: statements of databases, commands of
Redis, requests of HTTP and of clouds' APIs. The names have no values (python/src/moments/call_names.rs).

Where a driver's own function can be hooked, it is; SQLAlchemy and Django name the statements of the
other drivers. With the setting `otel` nothing is hooked: OpenTelemetry's spans say the same.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

# Module -> (class, method, what native.call_... is around it). A version of the library that has no such
# method remains as it is.
HOOKED: dict[str, list[tuple[str, str, str]]] = {
    # The wait for the head of the response.
    "aiohttp.client_reqrep": [("ClientResponse", "start", "response_async")],
    # What fetches and statements with arguments go through.
    "asyncpg.connection": [("Connection", "_do_execute", "execute_async")],
    "botocore.client": [("BaseClient", "_make_api_call", "api")],
    "django.db.backends.utils": [("CursorWrapper", "_execute", "with_cursor"),
                                 ("CursorWrapper", "_executemany", "with_cursor")],
    # Redirects included.
    "httpx._client": [("Client", "_send_handling_redirects", "request"),
                      ("AsyncClient", "_send_handling_redirects", "request_async")],
    "psycopg.cursor": [("Cursor", "execute", "execute"), ("Cursor", "executemany", "execute")],
    "psycopg.cursor_async": [("AsyncCursor", "execute", "execute_async"),
                             ("AsyncCursor", "executemany", "execute_async")],
    "psycopg2.extensions": [("cursor", "execute", "execute"), ("cursor", "executemany", "execute"),
                            ("connection", "commit", "commit"), ("connection", "rollback", "rollback")],
    "pymysql.cursors": [("Cursor", "execute", "execute"), ("Cursor", "executemany", "execute")],
    "redis.asyncio.client": [("Redis", "_send_command_parse_response", "command_async"),
                             ("Pipeline", "execute", "pipeline_async")],
    "redis.client": [("Redis", "_send_command_parse_response", "command"), ("Pipeline", "execute", "pipeline")],
    "sqlalchemy.engine.default": [("DefaultDialect", "do_execute", "of_cursor"),
                                  ("DefaultDialect", "do_executemany", "of_cursor"),
                                  ("DefaultDialect", "do_execute_no_params", "of_cursor")],
    "sqlite3.dbapi2": [("Cursor", "execute", "execute"), ("Cursor", "executemany", "execute"),
                       ("Connection", "commit", "commit"), ("Connection", "rollback", "rollback"),
                       ("Connection", "__exit__", "exit")],
    # requests, too: one span for each attempt and each hop.
    "urllib3.connectionpool": [("HTTPConnectionPool", "urlopen", "pool")],
}
if sys.version_info >= (3, 11):
    # Up to 3.10 these call the cursor's.
    HOOKED["sqlite3.dbapi2"] += [("Connection", "execute", "execute"), ("Connection", "executemany", "execute")]
# Of these modules' cursors SQLAlchemy and Django record nothing: the class by its name.
OWN_CURSORS = {"psycopg.cursor": "Cursor", "psycopg2.extensions": "cursor", "pymysql.cursors": "Cursor",
               "sqlite3.dbapi2": "Cursor"}


def patch(native: Any, module: ModuleType) -> None:
    """Hooks what is listed for the module."""
    if not native.setting_is_on("calls") or native.setting_is_on("otel"):
        return
    for holder, name, around in HOOKED[module.__name__]:
        owner = getattr(module, holder)
        if hasattr(owner, name):
            native.hook(owner, name, around=getattr(native, f"call_{around}"), keywords=True)
    if module.__name__ in OWN_CURSORS:
        native.cursor_is_hooked(getattr(module, OWN_CURSORS[module.__name__]))
