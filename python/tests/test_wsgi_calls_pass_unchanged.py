"""A WSGI server and its application see nothing of the request around a call."""

from __future__ import annotations

import pytest
from conftest import DASHCAM, Bench

BEGIN = """
    import dashcam, gc, weakref
    from dashcam import _native as native
    assert dashcam.start(slow="9s")
    def environ(path="/", **more):
        return {"REQUEST_METHOD": "GET", "PATH_INFO": path, **more}
    seen = []
    def start_response(status, headers, exc_info=None):
        seen.append((status, headers, exc_info))
        return "write"
    def call(application, env=None, start=start_response):
        return native.wsgi_call(application, environ() if env is None else env, start)
    def requests(path):
        import subprocess, json
        shown = subprocess.run([DASHCAM, "show", "--json", str(path)], capture_output=True, text=True)
        return {r["name"]: r["count"] for r in json.loads(shown.stdout)["requests"]}
"""


def run(bench: Bench, code: str) -> str:
    """Runs a program; returns its output."""
    result = bench.python(BEGIN.replace("DASHCAM", repr(DASHCAM)) + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_everything_that_is_passed_is_the_very_object(bench: Bench) -> None:
    run(bench, """
    class Made:
        __slots__ = ("parts",)
        def __iter__(self): return iter([b"a", b"b"])
    env = environ()
    before = dict(env)
    for body in [[b"a"], (b"a",), Made(), iter([b"a"]), (part for part in [b"a"]), map(bytes, [[97]]), "a", None, 7]:
        def application(given, start):
            assert given is env and dict(given) == before and start is start_response
            assert native.current_request() != 0
            assert start("200 OK", [("a", "b")], exc_info=None) == "write"
            return body
        assert call(application, env) is body and env == before
        assert native.current_request() == 0, body
    assert seen[0] == ("200 OK", [("a", "b")], None) and len(seen) == 9
    """)


def test_errors_pass_with_frames_of_the_program_only(bench: Bench) -> None:
    run(bench, """
    import traceback
    class Odd(KeyError): pass
    def raising(env, start): raise Odd("x")
    def refusing(status, headers): raise ValueError(status)
    def starts(env, start): start("200 OK", [])
    for application, start, kind in [(raising, start_response, Odd), (starts, refusing, ValueError)]:
        try: call(application, start=start)
        except kind as error: names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        else: raise AssertionError("it was swallowed")
        assert names[:2] == ["<module>", "call"] and names[2] == application.__name__, names
        assert native.current_request() == 0
    """)


WERKZEUG = """
    from werkzeug.wsgi import ClosingIterator
    closed = []
    def body(*parts):
        def made():
            for part in parts:
                if isinstance(part, Exception): raise part
                yield part
        return ClosingIterator(made(), lambda: closed.append(native.current_request()))
"""


def test_werkzeugs_bodies_end_their_request_when_they_are_used_up_or_closed(bench: Bench) -> None:
    run(bench, WERKZEUG + """
    given = body(b"a", b"b")
    seen_by_server = {name for name in dir(given)}
    made = call(lambda env, start: given)
    assert made is given and {name for name in dir(made)} == seen_by_server and type(made) is ClosingIterator
    assert not hasattr(made, "__len__")
    assert native.current_request() != 0
    assert list(made) == [b"a", b"b"] and native.current_request() == 0
    made.close()
    assert closed == [0]
    # Closed before it was used up.
    made = call(lambda env, start: body(b"a", b"b"))
    assert next(made) == b"a" and native.current_request() != 0
    made.close()
    assert native.current_request() == 0
    # Neither used up nor closed.
    made = call(lambda env, start: body(b"a"))
    assert native.current_request() != 0
    del made
    assert native.current_request() == 0
    # It raises half way.
    made = call(lambda env, start: body(b"a", KeyError("x")))
    try: list(made)
    except KeyError as error: assert error.args == ("x",)
    else: raise AssertionError("it was swallowed")
    assert native.current_request() == 0
    """)


def test_djangos_responses_end_their_request_when_they_are_closed(bench: Bench) -> None:
    run(bench, """
    from django.conf import settings
    settings.configure()
    from django.http import HttpResponse, StreamingHttpResponse
    for kind in (HttpResponse, StreamingHttpResponse):
        given = kind([b"a", b"b"])
        made = call(lambda env, start: given)
        assert made is given and native.current_request() != 0
        assert b"".join(made) == b"ab" and native.current_request() != 0
        made.close()
        assert native.current_request() == 0
    """)


def test_inside_of_another_request_it_is_just_called(bench: Bench) -> None:
    found = run(bench, """
    def inner(env, start):
        start("500 Oops", [])
        return [b"x"]
    def outer(env, start):
        before = native.current_request()
        result = native.wsgi_call(inner, env, start)
        native.wsgi_call(inner, environ("/other"), start)
        assert native.current_request() == before
        return result
    call(outer, environ("/outer"))
    print(requests(dashcam.snap("x")))
    """)
    assert found == "{'GET /outer': 1}"


def test_names_of_paths_are_for_grouping(bench: Bench) -> None:
    found = run(bench, """
    for path in ["/a/1?x=2", "/a/22", "/a/1f", "/a/0123abcdEF", "/a/123e4567-e89b-12d3-a456-426614174000",
                 "/f/77.json", "/f/u7.ics", "/f/report.2024-11.csv", "/f/v1.2", "/f/app.js", "/f/9.x-y", "/f/.7z",
                 "/a/" + "x" * 33, "/a/" + "x" * 32, "/", "//", "/caf\\u00e9"]:
        call(lambda env, start: [], environ(path))
    print(sorted(requests(dashcam.snap("x")).items()))
    for number in range(600):
        call(lambda env, start: [], environ(f"/page/p{number}"))
    names = requests(dashcam.snap("y"))
    assert len([name for name in names if name != "GET (other)"]) == 500, len(names)
    assert names["GET (other)"] == 113, names["GET (other)"]
    """)
    assert found == str(sorted({
        "GET /f/{id}.json": 1, "GET /f/{id}.ics": 1, "GET /f/{id}.csv": 1, "GET /f/v1.2": 1, "GET /f/app.js": 1,
        "GET /f/9.x-y": 1, "GET /f/.7z": 1, "GET /a/{id}": 5, "GET /a/1f": 1, "GET /a/" + "x" * 32: 1, "GET /": 1, "GET //": 1, "GET /café": 1,
    }.items()))


def test_odd_environments_and_cycles_do_no_harm(bench: Bench) -> None:
    run(bench, """
    class Connection:
        def fileno(self): raise OSError("closed")
    for more in [{"werkzeug.socket": Connection()}, {"werkzeug.socket": None}, {"werkzeug.socket": 7.5},
                 {"HTTP_TRACEPARENT": "\\udc80"}, {"HTTP_TRACEPARENT": 5}, {"PATH_INFO": "/\\udc80"},
                 {"PATH_INFO": 7}, {"REQUEST_METHOD": None}]:
        assert call(lambda env, start: [b"x"], environ(**more) | more) == [b"x"], more
    assert call(lambda env, start: [b"x"], {}) == [b"x"]
    assert call(lambda env, start: [b"x"], None) == [b"x"]
    class Interrupting:
        def fileno(self): raise KeyboardInterrupt
    try: call(lambda env, start: [b"x"], environ() | {"werkzeug.socket": Interrupting()})
    except KeyboardInterrupt: pass
    else: raise AssertionError("it was swallowed")
    class Kept: pass
    def keeps(env, start):
        kept = Kept()
        kept.start, kept.env = start, env
        env["kept"] = kept
        seen.append(weakref.ref(kept))
        return iter([b"x"])
    body = call(keeps)
    assert list(body) == [b"x"]
    del body
    gc.collect()
    assert seen[-1]() is None
    """)


@pytest.mark.parametrize("broken", ["asked", "failure"])
def test_a_server_that_is_not_as_expected_serves_as_without_us(bench: Bench, broken: str) -> None:
    run(bench, f"""
    from dashcam._integrations import wsgi
    class Server:
        def serve(self, number):
            if number == 3: raise LookupError(number)
            return number
    def asked(server, number):
        if {broken!r} == "asked": raise AttributeError("no such thing")
        return wsgi.Asked("GET", "/")
    def failure(server):
        raise AttributeError("no such thing")
    wsgi.serves(native, Server, "serve", asked, failure)
    assert [Server().serve(number) for number in range(3)] == [0, 1, 2]
    try: Server().serve(3)
    except LookupError as error: assert error.args == (3,)
    else: raise AssertionError("it was swallowed")
    assert native.current_request() == 0
    notices = [notice for notice in dashcam.status()["integrations"] if "Server is not as expected" in notice]
    assert len(notices) == 1, dashcam.status()
    """)


def test_a_connection_may_have_any_client_or_none(bench: Bench) -> None:
    run(bench, """
    import socket
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    sock, address = listener.accept()
    class Connection:
        pass
    class Request:
        method, path, headers = "GET", "/", []
    class Worker:
        def handle(self, request, connection): return native.current_request()
    native.hook(Worker, "handle", around=native.serving(native.parsed(1, 2, "sock", "client")))
    for given in (address, ("host",), ("host", "80"), ("host", -1), ("host", 1 << 70), "", b"", None, [1, 2]):
        connection = Connection()
        connection.sock, connection.client = sock, given
        assert Worker().handle(Request(), connection), given
    del connection.client
    assert Worker().handle(Request(), connection)
    notices = [notice for notice in dashcam.status()["integrations"] if "not as expected" in notice]
    assert notices == [], notices
    """)
