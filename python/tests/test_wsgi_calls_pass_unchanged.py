"""What a WSGI server and its application see of the request around a call: nothing, but for its end."""

from __future__ import annotations

from conftest import DASHCAM, Bench

BEGIN = """
    import dashcam, gc, weakref
    from dashcam import _native as native
    assert dashcam.start(slow="9s")
    def environ(path="/", **more):
        return {"REQUEST_METHOD": "GET", "PATH_INFO": path, **more}
    told = []
    def start_response(status, headers, exc_info=None):
        told.append((status, headers, exc_info))
        return "write"
    def call(application, env=None, start=start_response):
        return native.wsgi_call(application, environ() if env is None else env, start)
    def requests(path):
        import subprocess, json
        shown = subprocess.run([sys.argv[1], "show", "--json", str(path)], capture_output=True, text=True)
        return {r["name"]: r["count"] for r in json.loads(shown.stdout)["requests"]}
"""


def run(bench: Bench, code: str) -> str:
    """Runs a program; what it printed."""

    head = BEGIN.replace("sys.argv[1]", repr(DASHCAM))
    result = bench.python(head + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_body_that_is_made_while_it_is_sent_ends_the_request(bench: Bench) -> None:
    run(bench, """
    class Made:
        closed = 0
        kind = "made"
        def __iter__(self): return iter([b"a", b"b"])
        def __len__(self): return 2
        def close(self): self.closed += 1
    made = Made()
    def application(env, start):
        assert start("200 OK", [("a", "b")], exc_info=None) == "write"
        assert env["dashcam.request"] == native.current_request() != 0
        return made
    body = call(application)
    assert told == [("200 OK", [("a", "b")], None)]
    assert len(body) == 2 and body.kind == "made" and not hasattr(body, "nothing")
    assert native.current_request() != 0
    assert list(body) == [b"a", b"b"] and native.current_request() == 0
    assert list(body) == [b"a", b"b"], "as often as its maker likes"
    body.close()
    assert made.closed == 1
    # Closed before it was used up.
    body = call(lambda env, start: iter([b"a", b"b"]))
    assert next(iter(body)) == b"a" and native.current_request() != 0
    body.close()
    assert native.current_request() == 0
    # Neither used up nor closed.
    body = call(lambda env, start: iter([b"a"]))
    assert native.current_request() != 0
    del body
    assert native.current_request() == 0
    """)


def test_lists_end_it_at_once_and_errors_pass(bench: Bench) -> None:
    run(bench, """
    given = [b"a"]
    assert call(lambda env, start: given) is given and native.current_request() == 0
    class Odd(KeyError): pass
    def raising(env, start): raise Odd("x")
    def later(env, start):
        yield b"a"
        raise Odd("y")
    for application in (raising, later):
        try:
            for chunk in call(application): pass
        except Odd as error: caught = error
        else: raise AssertionError("it was swallowed")
        assert native.current_request() == 0
    def refusing(status, headers): raise ValueError(status)
    def starts(env, start): start("200 OK", [])
    try: call(starts, start=refusing)
    except ValueError as error: assert str(error) == "200 OK"
    else: raise AssertionError("it was swallowed")
    """)


def test_inside_of_another_request_it_is_just_called(bench: Bench) -> None:
    found = run(bench, """
    def inner(env, start):
        start("500 Oops", [])
        return [b"x"]
    def outer(env, start):
        before = native.current_request()
        assert native.wsgi_is_known(env)
        # The same environment, and one of its own: its status counts for the request around it.
        result = native.wsgi_call(inner, env, start)
        native.wsgi_call(inner, environ("/other"), start)
        assert native.current_request() == before
        return result
    assert not native.wsgi_is_known(environ())
    call(outer, environ("/outer"))
    print(requests(dashcam.snap("x")))
    """)
    assert found == "{'GET /outer': 1}"


def test_names_of_paths_are_for_grouping(bench: Bench) -> None:
    found = run(bench, """
    for path in ["/a/1?x=2", "/a/22", "/a/1f", "/a/0123abcdEF", "/a/123e4567-e89b-12d3-a456-426614174000",
                 "/a/" + "x" * 33, "/a/" + "x" * 32, "/", "//", "/caf\\u00e9"]:
        call(lambda env, start: [], environ(path))
    print(sorted(requests(dashcam.snap("x")).items()))
    for number in range(600):
        call(lambda env, start: [], environ(f"/page/p{number}"))
    names = requests(dashcam.snap("y"))
    assert len([name for name in names if name != "GET (other)"]) == 500, len(names)
    assert names["GET (other)"] == 106, names["GET (other)"]
    """)
    assert found == str(sorted({
        "GET /a/{id}": 5, "GET /a/1f": 1, "GET /a/" + "x" * 32: 1, "GET /": 1, "GET //": 1, "GET /café": 1,
    }.items()))


def test_odd_environments_and_cycles_do_no_harm(bench: Bench) -> None:
    run(bench, """
    class Connection:
        def fileno(self): raise OSError("closed")
    for more in [{"gunicorn.socket": Connection()}, {"gunicorn.socket": None}, {"werkzeug.socket": 7.5},
                 {"HTTP_TRACEPARENT": "\\udc80"}, {"HTTP_TRACEPARENT": 5}, {"PATH_INFO": "/\\udc80"},
                 {"PATH_INFO": 7}, {"REQUEST_METHOD": None}]:
        assert call(lambda env, start: [b"x"], environ(**more) | more) == [b"x"], more
    assert call(lambda env, start: [b"x"], {}) == [b"x"]
    class Interrupting:
        def fileno(self): raise KeyboardInterrupt
    try: call(lambda env, start: [b"x"], environ() | {"gunicorn.socket": Interrupting()})
    except KeyboardInterrupt: pass
    else: raise AssertionError("it was swallowed")
    class Kept: pass
    def keeps(env, start):
        kept = Kept()
        kept.start, kept.env = start, env
        env["kept"] = kept
        told.append(weakref.ref(kept))
        return iter([b"x"])
    body = call(keeps)
    assert list(body) == [b"x"]
    del body
    gc.collect()
    assert told[-1]() is None
    """)


def test_a_file_of_the_servers_own_kind_stays_what_it_is(bench: Bench) -> None:
    run(bench, """
    import io
    from wsgiref.util import FileWrapper
    def application(env, start): return env["wsgi.file_wrapper"](io.BytesIO(b"ab"))
    env = environ(**{"wsgi.file_wrapper": FileWrapper})
    body = call(application, env)
    assert type(body) is FileWrapper and native.current_request() != 0
    file = body.filelike
    body.close()
    assert file.closed and native.current_request() == 0
    body.close()
    # Never closed by its server, and of a kind that has no close.
    body = call(application, env)
    assert native.current_request() != 0
    del body
    gc.collect()
    assert native.current_request() == 0
    class Bare:
        __slots__ = ("file",)
        def __init__(self, file): self.file = file
        def __iter__(self): return iter(self.file)
    body = call(application, environ(**{"wsgi.file_wrapper": Bare}))
    assert list(body) == [b"ab"] and native.current_request() == 0
    body = call(application, environ(**{"wsgi.file_wrapper": lambda file: [file.read()]}))
    assert body == [b"ab"] and native.current_request() == 0
    """)
