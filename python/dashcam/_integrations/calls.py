"""Calls to other services as spans, with the setting `calls`: statements of databases, commands of
Redis, requests of HTTP and of clouds' APIs. The names have no values (python/src/moments/calls.rs).

Where a driver's own function can be hooked, it is; SQLAlchemy and Django name the statements of the
other drivers. With the setting `otel` nothing is hooked: OpenTelemetry's spans say the same.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def hook(native: Any, holder: Any, name: str, around: Any) -> None:
    """Hooks a method, if this version of the library has it."""
    if hasattr(holder, name):
        native.hook(holder, name, around=around, keywords=True)


def is_on(native: Any) -> bool:
    """Whether calls are recorded here."""
    return native.setting_is_on("calls") and not native.setting_is_on("otel")


def patch_psycopg(native: Any, module: ModuleType) -> None:
    """psycopg 3's cursors. `executemany` is named by the same statement."""
    if is_on(native):
        for name in ("execute", "executemany"):
            hook(native, module.Cursor, name, native.call_execute)
        native.cursor_is_hooked(module.Cursor)


def patch_psycopg_async(native: Any, module: ModuleType) -> None:
    """psycopg 3's async cursors."""
    if is_on(native):
        for name in ("execute", "executemany"):
            hook(native, module.AsyncCursor, name, native.call_execute_async)


def patch_pymysql(native: Any, module: ModuleType) -> None:
    """PyMySQL's cursors."""
    if is_on(native):
        for name in ("execute", "executemany"):
            hook(native, module.Cursor, name, native.call_execute)
        native.cursor_is_hooked(module.Cursor)


def patch_asyncpg(native: Any, module: ModuleType) -> None:
    """asyncpg's `Connection._do_execute`, through which fetches and statements with arguments go."""
    if is_on(native):
        hook(native, module.Connection, "_do_execute", native.call_execute_async)


def patch_sqlalchemy(native: Any, module: ModuleType) -> None:
    """SQLAlchemy, for drivers that are not hooked themselves."""
    if is_on(native):
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            hook(native, module.DefaultDialect, name, native.call_of_cursor)


def patch_django(native: Any, module: ModuleType) -> None:
    """Django's databases, for drivers that are not hooked themselves."""
    if is_on(native):
        for name in ("_execute", "_executemany"):
            hook(native, module.CursorWrapper, name, native.call_with_cursor)


def patch_redis(native: Any, module: ModuleType) -> None:
    """redis-py."""
    if is_on(native):
        hook(native, module.Redis, "_send_command_parse_response", native.call_command)
        hook(native, module.Pipeline, "execute", native.call_pipeline)


def patch_redis_async(native: Any, module: ModuleType) -> None:
    """redis-py's asyncio half."""
    if is_on(native):
        hook(native, module.Redis, "_send_command_parse_response", native.call_command_async)
        hook(native, module.Pipeline, "execute", native.call_pipeline_async)


def patch_urllib3(native: Any, module: ModuleType) -> None:
    """urllib3, and with it requests: one span for each attempt and each hop."""
    if is_on(native):
        hook(native, module.HTTPConnectionPool, "urlopen", native.call_pool)


def patch_httpx(native: Any, module: ModuleType) -> None:
    """httpx' two clients, redirects included."""
    if is_on(native):
        hook(native, module.Client, "_send_handling_redirects", native.call_request)
        hook(native, module.AsyncClient, "_send_handling_redirects", native.call_request_async)


def patch_aiohttp(native: Any, module: ModuleType) -> None:
    """aiohttp's client: the wait for the head of the response."""
    if is_on(native):
        hook(native, module.ClientResponse, "start", native.call_response_async)


def patch_botocore(native: Any, module: ModuleType) -> None:
    """botocore, and with it boto3."""
    if is_on(native):
        hook(native, module.BaseClient, "_make_api_call", native.call_api)
