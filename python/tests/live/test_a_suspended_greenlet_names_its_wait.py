"""For a request of a server of greenlets (gevent), the verdict names the function, file and line in
which it yielded, and the blocker: a greenlet that holds its lock, or one that does not yield
itself."""

from __future__ import annotations

import json
from typing import Any

import dashcam
import pytest
from conftest import Bench, on_a_busy_machine

FRAME = """
from gevent import monkey
monkey.patch_all()
import gevent, hashlib, queue, socket, subprocess, threading, time
import gevent.lock, gevent.pool
import dashcam

dashcam.start(service="greenlets", slow="200ms", post="100ms", cooldown="60s")

{parts}

def handle(n):
    with dashcam.request("GET /"):
        time.sleep(0.001)
        if n == 30:
            wait()

for n in range(40):
    gevent.spawn(handle, n).join()
time.sleep(0.5)
print(dashcam.snap("asked"))
"""

# name: parts of the program, causes, waiting function, text of its line, culprit's function
CASES: dict[str, tuple[str, str, str, str, str | None]] = {
    "sleep": ("""
def rest():
    time.sleep(0.5)
def wait():
    rest()
""", "sleep", "rest", "time.sleep(0.5)", None),
    "peer": ("""
server = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = server.accept()
    connection.recv(10)
    time.sleep(0.5)
    connection.sendall(b"late")
gevent.spawn(serve)
def ask():
    with socket.create_connection(server.getsockname()) as connection:
        connection.sendall(b"what")
        return connection.recv(10)
def wait():
    ask()
""", "downstream-wait", "ask", "return connection.recv(10)", None),
    "lock": ("""
lock = threading.Lock()
def flush():
    with dashcam.request("flush"), lock:
        time.sleep(0.6)
def update():
    with lock:
        pass
def wait():
    other = gevent.spawn(flush)
    time.sleep(0.001)
    update()
    other.join()
""", "lock-wait", "update", "with lock:", "flush"),
    "rlock": ("""
lock = threading.RLock()
def flush():
    with dashcam.request("flush"), lock:
        time.sleep(0.6)
def update():
    with lock:
        pass
def wait():
    other = gevent.spawn(flush)
    time.sleep(0.001)
    update()
    other.join()
""", "lock-wait", "update", "with lock:", "flush"),
    "queue": ("""
items = queue.Queue()
def take():
    items.get()
def wait():
    gevent.spawn_later(0.5, items.put, 1)
    take()
""", "pool-wait", "take", "items.get()", None),
    "semaphore": ("""
gate = gevent.lock.BoundedSemaphore(1)
def export():
    with gate:
        time.sleep(0.5)
def ask():
    with gate:
        pass
def wait():
    gevent.spawn(export)
    time.sleep(0.001)
    ask()
""", "pool-wait", "ask", "with gate:", None),
    "pool": ("""
pool = gevent.pool.Pool(1)
def job():
    time.sleep(0.5)
def submit():
    pool.spawn(job)
def wait():
    pool.spawn(job)
    submit()
""", "pool-wait", "submit", "pool.spawn(job)", None),
    "child": ("""
def run():
    subprocess.run(["sleep", "0.5"], check=True)
def wait():
    run()
""", "subprocess-wait", "run", "subprocess.run", None),
    "does not give way": ("""
def digest():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        hashlib.sha256(b"x" * 10000).digest()
def wait():
    gevent.spawn(digest)
    time.sleep(0.01)
""", "event-loop-blocked|cpu-starved", "digest", "", None),
}


@pytest.mark.parametrize("switches", ["on", "off"])
@pytest.mark.parametrize("case", CASES)
def test_what_it_waits_for_is_named(bench: Bench, case: str, switches: str) -> None:
    parts, causes, function, line_text, culprit = CASES[case]
    result = bench.python(FRAME.format(parts=parts), DASHCAM_SWITCHES=switches)
    assert result.returncode == 0, result.stderr
    why = bench.dashcam("why", result.stdout.strip().splitlines()[-1], "--json")
    verdict: dict[str, Any] = json.loads(why.stdout)
    own = [found for found in verdict["causes"] if found["cause"] in causes.split("|")]
    reported = [found["summary"] for found in verdict["causes"]]
    # After findings that only a busy machine causes: no CPU for a process or its sampler.
    assert own and (own[:1] == verdict["causes"][:1] or on_a_busy_machine()), reported
    first = own[0]
    where = first["where"]
    assert where["function"] == function and where["file"].endswith("program.py"), reported
    lines = (bench.folder / "program.py").read_text("utf-8").splitlines()
    assert line_text in lines[where["line"] - 1], (reported, lines[where["line"] - 1])
    if culprit:
        assert first["culprit"] and first["culprit"]["function"] == culprit, reported
    if case == "peer":
        assert first["target"] and first["target"].startswith("tcp 127.0.0.1:"), first


def test_greenlets_that_come_and_go_all_the_time_harm_nobody(bench: Bench) -> None:
    """Their memory is freed and used again while they are followed."""
    pyarrow = pytest.importorskip("pyarrow")
    result = bench.python("""
from gevent import monkey
monkey.patch_all()
import gevent, random, threading, time
import dashcam

dashcam.start(service="storm", slow="1ms", post="10ms", cooldown="60s")
lock = threading.Lock()
chance = random.Random(7)

def deep(n):
    if n:
        return deep(n - 1)
    with lock:
        time.sleep(chance.random() / 50)

def handle():
    with dashcam.request("GET /"):
        deep(chance.randrange(40))
        if chance.random() < 0.3:
            raise gevent.GreenletExit

until = time.monotonic() + 4
while time.monotonic() < until:
    some = [gevent.spawn(handle) for _ in range(30)]
    time.sleep(chance.random() / 20)
    gevent.killall(some[::3])
    gevent.joinall(some, timeout=0.02)
print(dashcam.snap("asked"))
""")
    assert result.returncode == 0, (result.returncode, result.stderr)
    capture = dashcam.open(result.stdout.split()[-1])
    kinds = set(pyarrow.table(capture.tables["awaits"]).column("kind").to_pylist())
    assert "lock" in kinds and "sleep" in kinds, kinds
