"""A program that asks databases and Redis in every way that is hooked, and records what it got and
what arrived at the servers, which are its own.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from noting import frames, kinds, note

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "tests"))


def _said(name: str, ask: "Callable[[], Any]") -> None:
    try:
        note("", name, ask())
    except Exception as error:  # noqa: BLE001
        note("", name, frames(error))


def _redis() -> "tuple[int, list[list[bytes]]]":
    """A port that answers each command with `ok`, but BROKEN with an error, and what arrived."""
    listening = socket.create_server(("127.0.0.1", 0))
    came: "list[list[bytes]]" = []

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                words = [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                came.append(words)
                connection.sendall(b"-ERR no\r\n" if words[0] == b"BROKEN" else b"$2\r\nok\r\n")

    def listen() -> None:
        while True:
            threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    return listening.getsockname()[1], came


def _with_redis() -> None:
    import redis
    import redis.asyncio

    port, came = _redis()
    where = {"host": "127.0.0.1", "port": port, "lib_name": None, "lib_version": None}
    client = redis.Redis(**where)
    _said("redis", lambda: (client.get("a"), client.set("a", "b"), came))
    _said("redis, refused", lambda: client.execute_command("BROKEN", "x"))
    _said("redis, a wrong call", lambda: client.get())  # type: ignore[call-arg]
    with client.pipeline(transaction=False) as pipeline:
        _said("redis, pipeline", lambda: (pipeline.get("a").get("b").execute(), came))
        _said("redis, refused in a pipeline", lambda: pipeline.get("a").execute_command("BROKEN").execute())

    # A server for each of two that ask at the same time: what arrives has one order.
    other, came_there = _redis()

    async def asks() -> Any:
        async with redis.asyncio.Redis(**where) as own, redis.asyncio.Redis(**{**where, "port": other}) as second:
            coroutine = second.pipeline(transaction=False).get("a").get("b").execute()
            facts = kinds(coroutine), inspect.getcoroutinestate(coroutine)
            task = asyncio.create_task(coroutine)
            try:
                await own.execute_command("BROKEN")
            except redis.ResponseError as error:
                return await own.get("a"), facts, await task, frames(error), came, came_there

    _said("redis, async", lambda: asyncio.run(asks()))


def _statements(execute: "Callable[..., Any]") -> None:
    """Good and bad ones."""
    _said("statement", lambda: execute("select a from b where c = 1").fetchall())
    _said("refused statement", lambda: execute("select broken").fetchall())
    _said("no statement", lambda: execute(5))
    _said("a wrong call", lambda: execute())
    _said("a wrong name", lambda: execute(nothing=5))


def _with_psycopg() -> None:
    import psycopg
    from tiny_postgres import TinyPostgres

    server = TinyPostgres()
    address = f"host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable"
    with psycopg.connect(address, autocommit=True) as connection:
        _statements(connection.execute)
        _statements(connection.cursor().execute)
        _said("psycopg, many", lambda: connection.cursor().executemany("select a from b where c = %s", [(1,), (2,)]))
        _said("psycopg, patched", functools.partial(_patched, connection))

    async def asks() -> Any:
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as own:
            coroutine = own.cursor().execute("select a from b where c = 2")
            facts = kinds(coroutine), inspect.getcoroutinestate(coroutine)
            row = await (await asyncio.create_task(coroutine)).fetchone()
            try:
                await own.execute("select broken")
            except psycopg.Error as error:
                return row, facts, frames(error)

    _said("psycopg, async", lambda: asyncio.run(asks()))
    note("", "arrived", server.queries)


def _patched(connection: Any) -> Any:
    from unittest import mock

    import psycopg

    with mock.patch.object(psycopg.Cursor, "execute", autospec=True, return_value="double") as double:
        found = psycopg.Cursor.execute(connection.cursor(), "select 1"), len(double.mock_calls)
    return found, connection.cursor().execute("select a from b").fetchall()


def _with_sqlalchemy() -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        connection.exec_driver_sql("create table b (a int, c int)")
        connection.execute(sqlalchemy.text("insert into b values (:a, :c)"), [{"a": 1, "c": 1}, {"a": 2, "c": 2}])
        _statements(connection.exec_driver_sql)
        _said("sqlalchemy, failed", lambda: connection.execute(sqlalchemy.text("select missing from b")))


def _with_django() -> None:
    import django
    from django.conf import settings

    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    django.setup()
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("create table b (a int, c int)")
        cursor.executemany("insert into b values (%s, %s)", [(1, 1), (2, 2)])
        _statements(cursor.execute)


def main() -> None:
    """All that are installed."""
    each = {"redis": _with_redis, "psycopg": _with_psycopg, "sqlalchemy": _with_sqlalchemy, "django": _with_django}
    for name, asks in each.items():
        if importlib.util.find_spec(name):
            asks()


main()
