"""Statements, commands and requests that a program sends are spans, named without their values; the
libraries answer as without us."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import dashcam
import pyarrow
import pytest

from conftest import Bench

TESTS = str(Path(__file__).parent)

# `show(work)` runs `work` inside of a request, prints its answer, and saves a capture.
BEGIN = f"""
import asyncio, sys, threading, warnings
sys.path.insert(0, {TESTS!r})
warnings.simplefilter("default")
import dashcam
import pyarrow

SETTINGS = {{}}
dashcam.start(slow="60s", out="out", memory="8MiB", **SETTINGS)

def show(work):
    with dashcam.request("GET /"):
        print(work())
    print(dashcam.snap())
"""

# A port that answers each request with a length of 2.
WEB = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/")
        else:
            self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    do_POST = do_GET
    def log_message(self, *words): pass

web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=web.serve_forever, daemon=True).start()
url = f"http://localhost:{web.server_port}"
"""


def recorded(bench: Bench, code: str, settings: str = "{}") -> "tuple[str, list[tuple[str, str, str]]]":
    """The answer of the program's `work`, and the spans of its calls by begin: name, kind, error."""
    begin = BEGIN.replace("SETTINGS = {}", f"SETTINGS = {settings}")
    result = bench.python(textwrap.dedent(begin) + textwrap.dedent(code))
    assert result.returncode == 0, result.stderr
    *_, answer, capture = result.stdout.splitlines()
    tables = dashcam.open(capture).tables
    found: dict[int, dict[str, str]] = {}
    for row in pyarrow.table(tables["attributes"]).to_pylist():
        if row["owner"] == "span":
            found.setdefault(row["owner_id"], {})[row["key"]] = row["value"]
    return answer, [
        (row["name"], found[row["span_row"]]["call"], found[row["span_row"]].get("exception.type", ""))
        for row in pyarrow.table(tables["spans"]).to_pylist() if row["request_id"] and "call" in found.get(row["span_row"], {})
    ]


SQLALCHEMY = """
import sqlalchemy
from sqlalchemy import text

engine = sqlalchemy.create_engine("sqlite://")
engine.connect().close()  # asks the driver for its settings

def work():
    with engine.connect() as connection:
        connection.execute(text("create table orders (id int, note text)"))
        connection.execute(text("insert into orders values (:id, :note)"), {"id": 1, "note": "secret"})
        rows = connection.execute(text("select id, note from orders where id in (1, 2) and note = 'secret'")).all()
        try:
            connection.execute(text("select id from missing"))
        except sqlalchemy.exc.OperationalError as error:
            return rows, type(error.orig).__name__

show(work)
"""


def test_statements_of_sqlalchemy_have_their_shape(bench: Bench) -> None:
    answer, spans = recorded(bench, SQLALCHEMY)
    assert answer == "([(1, 'secret')], 'OperationalError')"
    assert spans == [
        ("create table orders (id int, note text)", "sql", ""),
        ("insert into orders values (?)", "sql", ""),
        ("select orders where id in (?) and note = ?", "sql", ""),
        ("select missing", "sql", "OperationalError"),
        ("rollback", "sql", ""),
    ]


# The child loads the library before it has recorded anything.
FORKED = f"""
import os

child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
{SQLALCHEMY}
"""


def test_a_library_that_a_forked_child_loads_before_its_first_request_is_hooked(bench: Bench) -> None:
    answer, spans = recorded(bench, FORKED)
    assert answer == "([(1, 'secret')], 'OperationalError')"
    assert [kind for _, kind, _ in spans] == ["sql"] * 5


def test_the_setting_calls_turns_them_off(bench: Bench) -> None:
    answer, spans = recorded(bench, SQLALCHEMY, "{'calls': False}")
    assert answer == "([(1, 'secret')], 'OperationalError')"
    assert spans == []


def test_django_names_its_statements(bench: Bench) -> None:
    pytest.importorskip("django")
    answer, spans = recorded(bench, """
        import django
        from django.conf import settings
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
        django.setup()
        from django.db import connection

        def work():
            with connection.cursor() as cursor:
                cursor.execute("create table t (n int)")
                cursor.executemany("insert into t values (%s)", [(1,), (2,)])
                return cursor.execute("select sum(n) from t where n > %s", [0]).fetchall()

        with connection.cursor() as cursor:
            pass
        show(work)
        """)
    assert answer == "[(3,)]"
    assert spans == [
        ("create table t (n int)", "sql", ""),
        ("insert into t values (?)", "sql", ""),
        ("select t where n > ?", "sql", ""),
    ]


def test_psycopg_is_named_once_whatever_is_above_it(bench: Bench) -> None:
    pytest.importorskip("psycopg")
    answer, spans = recorded(bench, """
        import psycopg, sqlalchemy
        from tiny_postgres import TinyPostgres

        server = TinyPostgres()
        address = f"host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable"
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address))
        engine.dialect.initialize = lambda connection: None
        engine.dialect.default_isolation_level = "READ COMMITTED"

        async def ask():
            connection = await psycopg.AsyncConnection.connect(address, autocommit=True)
            cursor = connection.cursor()
            coroutine = cursor.execute("select answer from late where id = 3")
            assert asyncio.iscoroutine(coroutine)
            row = await (await asyncio.create_task(coroutine)).fetchone()
            await connection.close()
            return row

        def work():
            with psycopg.connect(address, autocommit=True) as connection:
                rows = connection.execute("select answer from early where id = %s", (7,)).fetchall()
                try:
                    connection.execute("select broken")
                except psycopg.Error:
                    pass
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("select answer from above where id = 9")
            return rows, asyncio.run(ask())

        show(work)
        """)
    assert answer == "([(42,)], (42,))"
    assert [(name, error) for name, _, error in spans] == [
        ("select early where id = ?", ""),
        ("select", "UndefinedTable"),
        ("select above where id = ?", ""),
        ("select late where id = ?", ""),
    ]


def test_statements_of_sqlite_are_named_however_they_are_sent(bench: Bench) -> None:
    answer, spans = recorded(bench, """
        import sqlite3

        class Cursor(sqlite3.Cursor):
            def execute(self, statement, *given):
                return super().execute(statement, *given)

        connection = sqlite3.connect(":memory:")
        early = connection.cursor().execute  # bound after its method was hooked

        def work():
            connection.execute("create table t (n int)")
            connection.executemany("insert into t values (?)", [(1,), (2,)])
            many = connection.cursor()
            many.executemany("insert into t values (?)", [(3,)])
            assert Cursor(connection).execute("select max(n) from t").fetchone() == (3,)
            try:
                sqlite3.Cursor.execute(many, "select n from missing")
            except sqlite3.OperationalError:
                pass
            connection.commit()
            connection.commit()  # there is nothing
            many.execute("delete from t")
            connection.rollback()
            with connection:
                many.execute("insert into t values (4)")
            try:
                with connection:
                    many.execute("delete from t")
                    raise KeyError
            except KeyError:
                pass
            return early("select sum(n) from t where n > :least", {"least": 0}).fetchall()

        show(work)
        """)
    assert answer == "[(10,)]"
    assert spans == [
        ("create table t (n int)", "sql", ""),
        ("insert into t values (?)", "sql", ""),
        ("insert into t values (?)", "sql", ""),
        ("select t", "sql", ""),
        ("select missing", "sql", "OperationalError"),
        ("commit", "sql", ""),
        ("delete from t", "sql", ""),
        ("rollback", "sql", ""),
        ("insert into t values (?)", "sql", ""),
        ("commit", "sql", ""),
        ("delete from t", "sql", ""),
        ("rollback", "sql", ""),
        ("select t where n > ?", "sql", ""),
    ]


def test_psycopg2_is_named_by_position_and_by_keyword(bench: Bench) -> None:
    pytest.importorskip("psycopg2")
    answer, spans = recorded(bench, """
        import psycopg2, psycopg2.extras
        from tiny_postgres import TinyPostgres

        server = TinyPostgres()
        address = f"host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable"

        def work():
            connection = psycopg2.connect(address)
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("select answer from early where id = %s", (7,))
            rows = cursor.fetchall()
            cursor.execute(vars={"n": 9}, query="select answer from named where id = %(n)s")
            try:
                cursor.execute("select broken")
            except psycopg2.Error:
                pass
            connection.autocommit = False
            with connection, connection.cursor(cursor_factory=psycopg2.extras.DictCursor) as cursor:
                cursor.execute("select answer from late")
                return rows, dict(cursor.fetchone()), server.queries[-1]

        show(work)
        """)
    assert answer == "([(42,)], {'answer': 42}, 'select answer from late')"
    assert [(name, error) for name, _, error in spans] == [
        ("select early where id = ?", ""),
        ("select named where id = ?", ""),
        ("select", "UndefinedTable"),
        ("select late", ""),
        ("commit", ""),
    ]


def test_a_statement_of_any_length_takes_no_more_memory_than_bare(bench: Bench) -> None:
    pytest.importorskip("psycopg2")
    answer, spans = recorded(bench, """
        import psycopg2
        from tiny_postgres import TinyPostgres

        server = TinyPostgres()
        address = f"host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable client_encoding=utf8"

        def work():
            grown = []
            cursor = psycopg2.connect(address).cursor()
            for length in (1, 10_000):
                statement = "select 'é" + "é" * length + "'"
                before = sys.getsizeof(statement)
                cursor.execute(statement)
                grown.append(sys.getsizeof(statement) - before)
            return grown

        show(work)
        """)
    assert answer == "[0, 0]"
    assert [name for name, _, _ in spans] == ["select", "select"]


def test_commands_of_redis_are_named_by_their_word(bench: Bench) -> None:
    pytest.importorskip("redis")
    answer, spans = recorded(bench, """
        import socket
        import redis, redis.asyncio

        listener = socket.create_server(("127.0.0.1", 0))

        def serve(connection):
            with connection, connection.makefile("rb") as stream:
                while line := stream.readline():
                    words = []
                    for _ in range(int(line[1:])):
                        words.append(stream.read(int(stream.readline()[1:]) + 2)[:-2])
                    connection.sendall(b"-ERR no\\r\\n" if words[0] == b"BROKEN" else b"$2\\r\\nok\\r\\n")

        def listen():
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        address = {"host": "127.0.0.1", "port": listener.getsockname()[1], "lib_name": None, "lib_version": None}
        client = redis.Redis(**address)
        client.get("warm")

        async def ask():
            async with redis.asyncio.Redis(**address) as client:
                async with client.pipeline(transaction=False) as pipe:
                    return await client.get("key"), await pipe.get("a").get("b").execute()

        def work():
            try:
                client.execute_command("BROKEN", "secret")
            except redis.ResponseError:
                pass
            with client.pipeline(transaction=False) as pipe:
                many = pipe.get("a").get("b").execute()
            return client.get("secret"), many, asyncio.run(ask())

        show(work)
        """)
    assert answer == "(b'ok', [b'ok', b'ok'], (b'ok', [b'ok', b'ok']))"
    assert spans == [
        ("BROKEN", "redis", "ResponseError"), ("PIPELINE", "redis", ""), ("GET", "redis", ""),
        ("GET", "redis", ""), ("PIPELINE", "redis", ""),
    ]


def test_requests_of_http_are_named_by_method_and_host(bench: Bench) -> None:
    for library in ("requests", "httpx", "aiohttp"):
        pytest.importorskip(library)
    answer, spans = recorded(bench, WEB + textwrap.dedent("""
        import aiohttp, httpx, requests

        async def ask():
            async with httpx.AsyncClient() as client:
                one = (await client.get(url + "/price?token=secret")).text
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return one, await answer.text()

        def work():
            with httpx.Client(follow_redirects=True) as client:
                moved = client.get(url + "/moved").text
            return requests.post(url, data=b"x").text, moved, asyncio.run(ask())

        show(work)
        port = web.server_port
        """))
    assert answer == "('ok', 'ok', ('ok', 'ok'))"
    names = [(re.sub(r"\d+$", "PORT", name), kind) for name, kind, error in spans if not error]
    assert names == [(f"{word} localhost:PORT", "http") for word in ("GET", "POST", "GET", "GET")]


def test_a_call_that_is_cancelled_has_failed(bench: Bench) -> None:
    pytest.importorskip("httpx")
    answer, spans = recorded(bench, """
        import socket
        import httpx

        listener = socket.create_server(("127.0.0.1", 0))
        began = threading.Event()
        accepted = []  # closed at the end only: the client would see it
        def accept():
            accepted.append(listener.accept()[0])
            # Not before the request is there: while it connects, anyio may lose a cancellation.
            accepted[0].recv(1)
            began.set()
        threading.Thread(target=accept, daemon=True).start()

        async def ask():
            async with httpx.AsyncClient() as client:
                task = asyncio.create_task(client.get(f"http://127.0.0.1:{listener.getsockname()[1]}"))
                while not began.is_set():
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    return "cancelled"

        def work():
            return asyncio.run(ask())

        show(work)
        """)
    assert answer == "cancelled"
    assert [error for _, _, error in spans] == ["CancelledError"]


def test_the_functions_look_as_before(bench: Bench) -> None:
    code = """
        import inspect
        import httpx, redis.asyncio, urllib3
        from httpx import AsyncClient, Client

        for holder, name in [(Client, "_send_handling_redirects"), (AsyncClient, "_send_handling_redirects"),
                             (redis.asyncio.Redis, "_send_command_parse_response"), (redis.client.Pipeline, "execute"),
                             (urllib3.HTTPConnectionPool, "urlopen")]:
            function = getattr(holder, name)
            print(function.__qualname__, inspect.signature(function), inspect.isfunction(function),
                  inspect.iscoroutinefunction(function), function.__code__.co_firstlineno)
        """
    pytest.importorskip("redis")
    bare = bench.python(textwrap.dedent(code))
    hooked = bench.python('import dashcam\ndashcam.start(slow="60s", out="out", memory="8MiB")\n' + textwrap.dedent(code))
    shown = [re.sub("0x[0-9a-f]+", "0x", run.stdout) for run in (bare, hooked)]
    assert shown[0] == shown[1] and shown[0].count("\n") == 5, hooked.stderr
