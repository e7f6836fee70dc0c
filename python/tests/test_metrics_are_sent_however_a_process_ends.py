"""The last counts are sent also if no exit handler runs: multiprocessing's children, `os._exit`,
`os.exec*`, workers that a server ends."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from conftest import BIN, Bench, free_port, get, wait_for
from test_metrics_reach_a_statsd_server import Server, deaf_port, total

BEGIN = """
import os, sys, time, warnings
import dashcam
warnings.simplefilter("ignore")  # of threads in a process that forks: they are ours
dashcam.start(service="till", memory="1MiB")
"""

ENDS = {
    "multiprocessing": """
import multiprocessing
def work(n):
    dashcam.count("orders", n)
def main():
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=work, args=(n,)) for n in (1, 2, 4)]
    [c.start() for c in children]
    [c.join() for c in children]
    with fork.Pool(1) as pool:
        pool.map(work, [8])
        pool.close()
        pool.join()
main()
""",
    "a child that exits raw": """
if os.fork() == 0:
    dashcam.count("orders", 15)
    os._exit(0)
os.wait()
""",
    "the process itself": """
dashcam.count("orders", 15)
os._exit(0)
""",
    "multiprocessing with _exit as its target": """
import multiprocessing
if __name__ == "__main__":
    dashcam.count("orders", 15)
    child = multiprocessing.get_context("spawn").Process(target=os._exit, args=(7,))
    child.start()
    child.join()
    assert child.exitcode == 7
""",
    "exec": """
dashcam.count("orders", 15)
os.execv(sys.executable, [sys.executable, "-c", "pass"])
""",
    "exec along PATH": """
import shutil
os.environ["PATH"] = "/nowhere:/neither:" + os.path.dirname(shutil.which("true"))
try:
    os.execlp("no such program", "x")
except FileNotFoundError:
    dashcam.count("orders", 7)  # recording went on
import time
time.sleep(0.1)
dashcam.count("orders", 8)
os.execlpe("true", "x", os.environ)
""",
    "the usual way": """
dashcam.count("orders", 15)
""",
    "an exception": """
dashcam.count("orders", 15)
sys.stderr = None
raise SystemExit(0)
""",
}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_the_last_counts_arrive(bench: Bench, end: str) -> None:
    server = Server()
    try:
        done = bench.python(BEGIN + ENDS[end], DASHCAM_STATSD=f"udp://127.0.0.1:{server.port}",
                            PYTHONWARNINGS="ignore", DASHCAM_OUT=str(bench.folder))
    finally:
        lines = server.end()
    assert done.returncode == 0, done.stderr
    assert total(lines, "orders") == 15, lines


def test_a_child_that_only_execs_starts_nothing(bench: Bench) -> None:
    done = bench.python(BEGIN + """
from dashcam import _native
pid = os.fork()
if pid == 0:
    assert _native.leave() is True
    threads = os.listdir("/proc/self/task")
    os.write(1, str(len(threads)).encode())
    os.execv(sys.executable, [sys.executable, "-c", "pass"])
os.waitpid(pid, 0)
""", PYTHONWARNINGS="ignore", DASHCAM_OUT=str(bench.folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1", "no thread of ours"


def test_nobody_listens_is_known_and_not_waited_for(bench: Bench) -> None:
    with deaf_port() as port:
        done = bench.python(BEGIN + """
from dashcam import _native
dashcam.count("orders", 15)
assert _native.leave() is False
lost = dashcam.status()["statsd"]
assert lost["waiting_lines"] >= 1 and lost["down"] == "no_receiver", lost
# Within 20 ms of a call that tried, nothing is tried again. The machine may let more time pass between two calls.
first, gap = True, 1.0
while first or gap > 0.015:
    first, at = _native.leave(), time.monotonic()
    second, gap = _native.leave(), time.monotonic() - at
assert second is True
""", DASHCAM_STATSD=f"udp://127.0.0.1:{port}", DASHCAM_OUT=str(bench.folder))
    assert done.returncode == 0, done.stderr


WSGI = """
import dashcam
def app(environ, start_response):
    dashcam.count("asked")
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
async def asgi(scope, receive, send):
    if scope["type"] == "http":
        dashcam.count("asked")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
"""


@pytest.mark.parametrize("server_words", [
    ["gunicorn", "--workers", "2", "--bind", "127.0.0.1:{port}", "app:app"],
    ["gunicorn", "--workers", "1", "--threads", "2", "--bind", "127.0.0.1:{port}", "app:app"],
    ["uvicorn", "--port", "{port}", "app:asgi", "--lifespan", "off"],
    ["uvicorn", "--port", "{port}", "app:asgi", "--lifespan", "off", "--workers", "2"],
], ids=["gunicorn", "gunicorn gthread", "uvicorn", "uvicorn with workers"])
def test_workers_that_are_ended_by_a_signal_send_what_they_have(bench: Bench, server_words: "list[str]") -> None:
    bench.write("app.py", WSGI)
    # A worker of gunicorn that gets the signal before its own handlers are in place does not end.
    bench.write("gunicorn.conf.py", 'def post_worker_init(worker): open(f"ready-{worker.pid}", "w").close()')
    server, port = Server(), free_port()
    words = [word.format(port=port) for word in server_words]
    try:
        service = subprocess.Popen(
            [str(BIN / "dashcam"), "run", "--memory", "1MiB", "--", str(BIN / words[0]), *words[1:]],
            cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "DASHCAM_STATSD": f"udp://127.0.0.1:{server.port}"})
        bench.running.append(service)
        for _ in range(20):
            assert get(port) == "ok"
        if words[0] == "gunicorn":
            workers = int(words[words.index("--workers") + 1])
            wait_for("all workers", lambda: len(list(bench.folder.glob("ready-*"))) == workers)
        service.send_signal(signal.SIGTERM)
        said, _ = service.communicate(timeout=60)
    finally:
        lines = server.end()
    assert total(lines, "asked") == 20, said
