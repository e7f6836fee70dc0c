"""`dashcam attach` on servers that never saw dashcam, while they serve: no request fails, no response
changes, and a capture afterwards has the right cause.

DASHCAM_ATTACHES sets how often each server is attached to and detached from; tools/attach_cycles
runs this on every interpreter and prints what `Pauses` records.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, blames, free_port, get, wait_for

ATTACHES = int(os.environ.get("DASHCAM_ATTACHES", "5"))

FLASK = """
    import time
    from flask import Flask
    app = Flask(__name__)
    def backoff(): time.sleep(0.4)
    @app.get("/item/<name>")
    def item(name):
        if name == "slow": backoff()
        return "item " + name
"""
FASTAPI = """
    import time
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse
    app = FastAPI()
    def backoff(): time.sleep(0.4)
    @app.get("/item/{name}", response_class=PlainTextResponse)
    def item(name: str):
        if name == "slow": backoff()
        return "item " + name
"""
AIOHTTP = """
    import sys, time
    from aiohttp import web
    def backoff(): time.sleep(0.4)
    async def item(request):
        name = request.match_info["name"]
        if name == "slow": backoff()
        return web.Response(text="item " + name)
    app = web.Application()
    app.router.add_get("/item/{name}", item)
    if __name__ == "__main__": web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""
# Name -> the application, the command, and whether its first child serves.
SERVERS: dict[str, tuple[str, list[str], bool]] = {
    "gunicorn-sync": (FLASK, ["-m", "gunicorn", "--bind", "127.0.0.1:PORT", "app:app"], True),
    "gunicorn-gthread": (FLASK, ["-m", "gunicorn", "-k", "gthread", "--threads", "4", "--bind", "127.0.0.1:PORT",
                                 "app:app"], True),
    "uvicorn": (FASTAPI, ["-m", "uvicorn", "--log-level", "warning", "--port", "PORT", "app:app"], False),
    "waitress": (FLASK, ["-m", "waitress", "--listen", "127.0.0.1:PORT", "app:app"], False),
    "aiohttp": (AIOHTTP, ["app.py", "PORT"], False),
}
# One word that the module of each needs.
NEEDS = {"gunicorn-sync": "flask", "gunicorn-gthread": "flask", "uvicorn": "fastapi", "waitress": "waitress",
         "aiohttp": "aiohttp"}


class Load:
    """Clients that ask all the time; what was not as expected is kept."""

    def __init__(self, port: int, clients: int = 2) -> None:
        self.port, self.ended, self.answers, self.wrong = port, threading.Event(), 0, list[str]()
        self.threads = [threading.Thread(target=self.ask, args=(f"n{i}",), daemon=True) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def ask(self, name: str) -> None:
        while not self.ended.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
            try:
                for _ in range(10):
                    connection.request("GET", f"/item/{name}")
                    answer = connection.getresponse()
                    body = answer.read()
                    if (answer.status, body) != (200, f"item {name}".encode()):
                        self.wrong.append(f"{answer.status} {body!r}")
                    self.answers += 1
                    time.sleep(0.005)
                    if answer.will_close:
                        break
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
            finally:
                connection.close()

    def end(self) -> list[str]:
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return self.wrong


class Pauses:
    """What attaching cost the process, in ms, as the command prints it."""

    PRINTED = re.compile(r"stopped for ([\d.]+) ms, its thread held for ([\d.]+) ms")

    def __init__(self) -> None:
        self.stopped, self.held = list[float](), list[float]()

    def add(self, printed: str) -> None:
        """Takes the line of one attach."""
        found = self.PRINTED.search(printed)
        assert found, printed
        self.stopped.append(float(found[1]))
        self.held.append(float(found[2]))

    def record(self, request: pytest.FixtureRequest, answers: int) -> None:
        """Into the JUnit file, as properties of the test."""
        request.node.user_properties += [
            ("cycles", len(self.stopped)), ("answers", answers),
            ("stopped_ms", " ".join(map(str, self.stopped))), ("held_ms", " ".join(map(str, self.held)))]


class Server:
    """A server, and the process in it that serves."""

    def __init__(self, bench: Bench, name: str, *more: str) -> None:
        if importlib.util.find_spec(NEEDS[name]) is None:
            pytest.skip(f"{NEEDS[name]} is not installed for this interpreter")
        self.name = name
        code, words, has_child = SERVERS[name]
        bench.write("app.py", code)
        self.port = free_port()
        words = [word.replace("PORT", str(self.port)) for word in words]
        self.process = bench.start([sys.executable, *words, *more])
        get(self.port, "/item/first")
        self.pid = children_of(self.process.pid)[0] if has_child else self.process.pid


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_recorded(bench: Bench, pid: int) -> bool:
    return bench.dashcam("status", str(pid)).returncode == 0


@pytest.fixture(params=SERVERS)
def server(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Server]:
    yield Server(bench, request.param)


@pytest.mark.seconds(3000)
def test_no_request_fails_while_it_is_attached_to_and_detached_from(
        bench: Bench, server: Server, request: pytest.FixtureRequest) -> None:
    load = Load(server.port)
    pid = str(server.pid)
    pauses = Pauses()
    for turn in range(ATTACHES):
        attached = bench.dashcam("attach", pid, "--slow", "30s", "--service", f"turn{turn}", "--out", "turns")
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        pauses.add(attached.stdout)
        seen = load.answers
        wait_for("answers", lambda seen=seen: load.answers > seen + 3)
        assert bench.dashcam("detach", pid).returncode == 0
    pauses.record(request, load.answers)
    assert bench.dashcam("attach", pid, "--slow", "200ms", "--out", "captures").returncode == 0
    assert get(server.port, "/item/slow") == "item slow"
    wait_for("a capture", bench.captures)
    wrong = load.end()
    assert (wrong, server.process.poll()) == ([], None)
    verdict = bench.dashcam("why", "captures").stdout
    # The coroutine of aiohttp's handler sleeps on the loop's thread.
    cause = "event-loop-blocked" if server.name == "aiohttp" else "sleep"
    assert blames(verdict, cause, "app.py:", "backoff()"), verdict


@pytest.mark.seconds(3000)
@pytest.mark.parametrize("name", ["gunicorn-gthread", "uvicorn"])
def test_an_attacher_killed_at_any_moment_harms_no_request(bench: Bench, name: str) -> None:
    server = Server(bench, name)
    load, chance = Load(server.port), random.Random(0x5EED)
    for _ in range(2 * ATTACHES):
        attacher = bench.start([DASHCAM, "attach", str(server.pid)])
        time.sleep(chance.uniform(0, 0.06))
        attacher.kill()
        attacher.communicate(timeout=PATIENCE_S)
        seen = load.answers
        wait_for("answers", lambda seen=seen: load.answers > seen + 3)
        bench.dashcam("detach", str(server.pid))
    # What a killed attacher left is no obstacle, once it was taken.
    wait_for("an attach", lambda: bench.dashcam("attach", str(server.pid)).returncode == 0 or is_recorded(bench, server.pid))
    assert (load.end(), server.process.poll()) == ([], None)


def test_a_tree_has_its_workers_of_now_and_those_to_come(bench: Bench) -> None:
    server = Server(bench, "gunicorn-gthread", "--workers", "2")
    master = server.process.pid
    attached = bench.dashcam("attach", str(master), "--tree", "--slow", "200ms", "--service", "shop", "--out", "captures")
    assert attached.returncode == 0, attached
    workers = children_of(master)
    assert len(workers) == 2 and all(is_recorded(bench, pid) for pid in [master, *workers])
    os.kill(workers[0], signal.SIGTERM)

    def next_one() -> bool:
        get(server.port, "/item/a")
        fresh = [pid for pid in children_of(master) if pid not in workers]
        return bool(fresh) and is_recorded(bench, fresh[0])

    wait_for("the next worker to be recorded", next_one)
    assert get(server.port, "/item/slow") == "item slow"
    wait_for("a capture", bench.captures)
    assert json.loads(bench.dashcam("why", "captures", "--json").stdout)["causes"][0]["cause"] == "sleep"


def test_workers_that_are_new_interpreters_are_recorded_when_they_come(bench: Bench) -> None:
    """uvicorn starts its workers by `multiprocessing`'s spawn, beside a tracker of resources."""
    server = Server(bench, "uvicorn", "--workers", "2")
    master = server.process.pid
    attached = bench.dashcam("attach", str(master), "--tree", "--slow", "200ms", "--service", "shop", "--out", "captures")
    assert attached.returncode == 0, attached
    recorded = [int(line.split()[1]) for line in attached.stdout.splitlines()]
    assert recorded[0] == master and len(recorded) == 3, attached
    os.kill(recorded[1], signal.SIGKILL)

    def next_one() -> bool:
        get(server.port, "/item/a")
        return any(is_recorded(bench, pid) for pid in children_of(master) if pid not in recorded)

    wait_for("the next worker to be recorded", next_one)
    assert json.loads(bench.dashcam("status", str(recorded[2]), "--json").stdout)["service"] == "shop"


@pytest.mark.seconds(3000)
def test_a_program_that_forks_all_the_time_is_attached_to_once(bench: Bench) -> None:
    """A child that is forked with the request in its memory does not take it."""
    bench.write("forks.py", """
        import os, sys
        print("up", flush=True)
        count = 0
        while not os.path.exists("end"):
            child = os.fork()
            if child == 0:
                for _ in range(200): pass
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            count += 1
        print(count, flush=True)
    """)
    program = bench.start([sys.executable, "-W", "ignore", "forks.py"])
    assert program.stdout is not None and program.stdout.readline() == "up\n"
    for _ in range(ATTACHES):
        attached = bench.dashcam("attach", str(program.pid))
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        assert bench.dashcam("detach", str(program.pid)).returncode == 0
    (bench.folder / "end").touch()
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0 and int(out) > 0, err


@pytest.mark.seconds(3000)
def test_a_call_in_c_that_keeps_the_gil_for_seconds_only_delays(bench: Bench) -> None:
    """The request is taken between two calls, and no call is cut short."""
    bench.write("counts.py", """
        import os, sys, time
        print("up", flush=True)
        results = set()
        calls = 0
        while not os.path.exists("end"):
            results.add(sum(range(30_000_000)))
            calls += 1
        print(calls, results == {449999985000000}, flush=True)
    """)
    program = bench.start([sys.executable, "counts.py"])
    assert program.stdout is not None and program.stdout.readline() == "up\n"
    for _ in range(ATTACHES):
        attached = bench.dashcam("attach", str(program.pid))
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        assert bench.dashcam("detach", str(program.pid)).returncode == 0
    (bench.folder / "end").touch()
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0 and out.endswith(" True\n"), (out, err)
