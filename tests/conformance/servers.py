"""The servers and their exchanges: one entry for each server and application."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, NamedTuple

import wire

APPLICATIONS = Path(__file__).parent / "applications"
sys.path.insert(0, str(APPLICATIONS))

# The client's part of an exchange: (port, the case's name) -> the bytes that came back.
Exchange = Callable[[int, str], bytes]


class Service(NamedTuple):
    """A server with an application, or a program that ends by itself, which has no exchanges."""

    # The interpreter's arguments; `{port}` is the port.
    words: list[str]
    exchanges: dict[str, Exchange]
    # Modules that it needs.
    needs: list[str] = []


def asks(path: str, **request: object) -> Exchange:
    """One request."""
    # type: ignore[arg-type]
    return lambda port, case: wire.exchange(port, wire.request(case, path, **request))


def _leaves(path: str) -> Exchange:
    return lambda port, case: wire.exchange(port, wire.request(case, path), leaves_after=1)


def _keeps_alive(path: str) -> Exchange:
    def both(port: int, case: str) -> bytes:
        first = wire.request(f"{case} (first)", path, last=False)
        return wire.exchange(port, first + wire.request(f"{case} (second)", path))

    return both


def _talks(path: str, *texts: str) -> Exchange:
    return lambda port, case: wire.websocket(port, case, path, *texts)


def _with_heads(paths: list[str]) -> dict[str, Exchange]:
    exchanges = {f"GET {path}": asks(path) for path in paths}
    return {**exchanges, **{f"HEAD {path}": asks(path, method="HEAD") for path in paths}}


def _bodies() -> dict[str, Exchange]:
    from bodies import KINDS

    paths = ["/" + name.replace(" ", "_") for name in KINDS if name not in ("very large", "after the client has left")]
    exchanges = _with_heads(paths)
    exchanges["POST /echo"] = asks("/echo", method="POST", body=b"z" * 5000)
    exchanges |= {f"1.0 {path}": asks(path, version="1.0") for path in paths if "generator" in path or "list" in path}
    exchanges |= {f"kept alive {path}": _keeps_alive(path) for path in ("/list", "/generator", "/iterator+close")}
    exchanges["leaves"] = _leaves("/very_large")
    exchanges["bad request"] = lambda port, case: wire.exchange(port, b"NONSENSE\r\n\r\n")
    return exchanges


def _asgi() -> dict[str, Exchange]:
    from asgi_kinds import KINDS

    paths = [f"/{name}" for name in KINDS if name != "waits_for_the_end"]
    exchanges = _with_heads(paths)
    exchanges["POST /echoes"] = asks("/echoes", method="POST", body=b"z" * 100_000)
    exchanges |= {f"kept alive {path}": _keeps_alive(path) for path in ("/plain", "/streams")}
    exchanges["leaves"] = _leaves("/waits_for_the_end")
    exchanges["websocket"] = _talks("/", "one", "two")
    exchanges["websocket, refused"] = _talks("/refused")
    exchanges["websocket, fails"] = _talks("/", "one", "raise")
    return exchanges


def _web(*more: str, talks: bool = False) -> dict[str, Exchange]:
    paths = ["/plain/name", "/raises", "/streams", "/streams_and_fails", "/sends", "/nowhere", *more]
    exchanges = {**_with_heads(paths), "POST": asks("/plain/name", method="POST", body=b"posted"),
                 "kept alive": _keeps_alive("/plain/name")}
    return {**exchanges, "websocket": _talks("/talks", "said")} if talks else exchanges


_ENDS = ["by returning", "with a code", "with words", "by an error", "by os._exit", "by a signal", "by kill", "by SIGINT",
         "by a handled signal", "by another program", "with an error in a thread", "with a daemon", "twice", "by abort",
         "by recursion"]
_STARLETTE = ["/plain", "/raises", "/streams", "/streams_plainly", "/streams_and_fails", "/nowhere", "/api/async/a",
              "/api/plain/p", "/api/depends", "/api/raises", "/api/number/7", "/api/number/x", "/api/docs", "/api/none"]
_GUNICORN = ["-m", "gunicorn", "-w1", "-b", "127.0.0.1:{port}", "--graceful-timeout", "5"]
_UVICORN = ["-m", "uvicorn", "--port", "{port}"]
_HYPERCORN = ["-m", "hypercorn", "-b", "127.0.0.1:{port}", "--graceful-timeout", "1"]
# granian reads a body in one thread and sends it in another: how far an unsent body is read, and
# whether the client's end is noticed, depends on timing there.
_GRANIAN_LEAVES_OPEN = ("too_large", "too_small", "not_modified", "leaves", "HEAD")
_GRANIAN = ["-m", "granian", "--port", "{port}", "--workers", "1"]
# daphne leaves the connection open where an application ends too early: each takes all patience.
_DAPHNE_LEAVES_OPEN = ("raises_once", "raises_in", "says_nothing", "starts_twice", "never_ends", "odd_messages")
_DAPHNE = ["-m", "daphne", "-v", "0", "-b", "127.0.0.1", "-p", "{port}"]
_UWSGI = ["uwsgi_server.py", "--http-socket", "127.0.0.1:{port}", "--master", "--need-app", "--die-on-term",
          "--disable-logging", "--enable-threads", "--module"]


def services() -> dict[str, Service]:
    """All of them."""

    def of_hypercorn(exchanges: dict[str, Exchange]) -> dict[str, Exchange]:
        # It logs each part that it sends to a client that has left. Which is the first of them depends
        # on timing, bare as well: here the server knows that it has left before it gets the rest.
        return {**exchanges, "leaves": _leaves("/after_the_client_has_left")}

    def of_daphne(exchanges: dict[str, Exchange]) -> dict[str, Exchange]:
        return {name: exchange for name, exchange in exchanges.items()
                if not any(part in name for part in _DAPHNE_LEAVES_OPEN)}

    def of_granian(exchanges: dict[str, Exchange]) -> dict[str, Exchange]:
        return {name: exchange for name, exchange in exchanges.items()
                if not any(part in name for part in _GRANIAN_LEAVES_OPEN)}

    wsgi, asgi, flask, django = _bodies(), _asgi(), _web("/handled", "/aborts", "/waits"), _web("/waits", "/waits_and_raises")
    starlette = {**_with_heads(_STARLETTE), "POST": asks("/plain", method="POST", body=b"posted"),
                 "websocket": _talks("/talks", "said")}
    found = {
        "gunicorn sync": Service([*_GUNICORN, "bodies:application"], wsgi, ["gunicorn"]),
        "gunicorn gthread": Service([*_GUNICORN, "--threads", "2", "bodies:application"], wsgi, ["gunicorn"]),
        "gunicorn gevent": Service([*_GUNICORN, "-k", "gevent", "bodies:application"], wsgi, ["gunicorn", "gevent"]),
        "gunicorn uvicorn": Service([*_GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "asgi_kinds:application"], asgi,
                                    ["gunicorn", "uvicorn_worker"]),
        "uvicorn h11": Service([*_UVICORN, "--http", "h11", "--loop", "asyncio", "asgi_kinds:application"], asgi, ["uvicorn"]),
        "uvicorn httptools": Service([*_UVICORN, "--http", "httptools", "--loop", "uvloop", "asgi_kinds:application"],
                                     asgi, ["uvicorn", "httptools", "uvloop"]),
        "hypercorn": Service([*_HYPERCORN, "asgi_kinds:application"], asgi, ["hypercorn"]),
        "hypercorn wsgi": Service([*_HYPERCORN, "wsgi:bodies:application"], of_hypercorn(wsgi), ["hypercorn"]),
        "daphne": Service([*_DAPHNE, "asgi_kinds:application"], of_daphne(asgi), ["daphne"]),
        "granian asgi": Service([*_GRANIAN, "--interface", "asgi", "asgi_kinds:application"], of_granian(asgi), ["granian"]),
        "granian wsgi": Service([*_GRANIAN, "--interface", "wsgi", "bodies:application"], of_granian(wsgi), ["granian"]),
        "uwsgi": Service([*_UWSGI, "bodies:application"], wsgi, ["pyuwsgi"]),
        "uwsgi threads": Service([*_UWSGI, "bodies:application", "--threads", "3", "--lazy-apps"], wsgi, ["pyuwsgi"]),
        "flask uwsgi": Service([*_UWSGI, "flask_app:application", "--threads", "3"], flask, ["flask", "pyuwsgi"]),
        "http.server": Service(["serve.py", "http.server", "{port}"],
                               {**_with_heads(["/plain", "/raises", "/refuses"]), "kept alive": _keeps_alive("/plain"),
                                "POST": asks("/plain", method="POST", body=b"posted"),
                                "bad request": lambda port, case: wire.exchange(port, b"NONSENSE\r\n\r\n")}),
        "aiohttp": Service(["aiohttp_app.py", "{port}"], _web("/refuses", "/says_nothing", talks=True), ["aiohttp"]),
        "sanic": Service(["sanic_app.py", "{port}"], _web("/waits", "/refuses", talks=True), ["sanic"]),
        "litestar uvicorn": Service([*_UVICORN, "litestar_app:application"], _web(), ["litestar", "uvicorn"]),
        "tornado": Service(["tornado_app.py", "{port}"], _web("/refuses", talks=True), ["tornado"]),
        "twisted": Service(["twisted_app.py", "{port}"], _web("/threads", "/awaits"), ["twisted"]),
        "django runserver": Service(["django_app.py", "runserver", "--noreload", "127.0.0.1:{port}"], django, ["django"]),
        "django uvicorn": Service([*_UVICORN, "django_app:asgi_application"], django, ["django", "uvicorn"]),
        "django gunicorn": Service([*_GUNICORN, "django_app:application"], django, ["django", "gunicorn"]),
        "flask gunicorn": Service([*_GUNICORN, "--threads", "2", "flask_app:application"], flask, ["flask", "gunicorn"]),
        "starlette uvicorn": Service([*_UVICORN, "starlette_app:application"], starlette, ["fastapi", "uvicorn"]),
        "starlette hypercorn": Service([*_HYPERCORN, "starlette_app:application"], starlette, ["fastapi", "hypercorn"]),
        "starlette granian": Service([*_GRANIAN, "--interface", "asgi", "starlette_app:application"], starlette,
                                     ["fastapi", "granian"]),
    }
    for name in ("wsgiref", "werkzeug", "waitress", "cheroot", "gevent.pywsgi", "eventlet"):
        # Which error eventlet logs of a client that leaves depends on timing.
        bodies = {case: asked for case, asked in wsgi.items() if (name, case) != ("eventlet", "leaves")}
        found[name] = Service(["serve.py", name, "{port}", "bodies"], bodies, [name.split(".")[0]])
        found[f"flask {name}"] = Service(["serve.py", name, "{port}", "flask_app"], flask, ["flask", name.split(".")[0]])
    found |= {f"ends {how}": Service(["ends.py", how.replace(" ", "_")], {}) for how in _ENDS}
    found["children"] = Service(["children.py"], {})
    found["clients"] = Service(["clients.py"], {})
    found["databases"] = Service(["databases.py"], {})
    found["celery"] = Service(["celery_tasks.py"], {}, ["celery"])
    found |= {f"celery {pool}": Service(["celery_worker.py", "--pool", pool], {}, ["celery"])
              for pool in ("prefork", "solo", "threads")}
    found["grpc"] = Service(["grpc_calls.py"], {}, ["grpc"])
    return found
