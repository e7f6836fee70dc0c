"""Workers of RQ, Dramatiq and arq: a run of a job is a request with its function's name; one that raises is an error,
one that asks to be run again is not; a job that is called in place is its caller's work. (Kafka: its own file.)"""

from __future__ import annotations

import sys

import pytest

from conftest import Bench

REQUESTS = """
def requests():
    import pyarrow, dashcam
    status = dashcam.status()
    assert status["integrations"] == [] and status["open_requests"] == 0, status
    table = pyarrow.table(dashcam.open(dashcam.snap()).tables["requests"]).to_pylist()
    for request in table: print(request["name"], "error" if request["is_error"] else "")
"""


def recorded(bench: Bench, program: str) -> list[str]:
    """The requests of a program: names, and whether they failed."""
    bench.write("recorded.py", REQUESTS)
    program = "import logging; logging.disable(logging.CRITICAL)\nimport dashcam; assert dashcam.start(slow='90s')\n" + program
    path = bench.folder / "program.py"
    path.write_text(program, encoding="utf-8")
    result = bench.run([sys.executable, str(path)])
    assert result.returncode == 0, result.stderr
    return sorted(line.rstrip() for line in result.stdout.splitlines())


def test_rq(bench: Bench) -> None:
    pytest.importorskip("rq")
    pytest.importorskip("fakeredis")
    bench.write("jobs.py", "def works(n): return n\ndef fails(): raise LookupError('x')\n")
    found = recorded(bench, """
import fakeredis, jobs, recorded, rq
connection = fakeredis.FakeStrictRedis()
queue = rq.Queue(connection=connection)
works, fails = queue.enqueue(jobs.works, 1), queue.enqueue(jobs.fails)
rq.SimpleWorker([queue], connection=connection).work(burst=True)
assert (works.get_status(), fails.get_status()) == ("finished", "failed"), (works.get_status(), fails.get_status())
with dashcam.request("caller"):
    rq.Queue(connection=connection, is_async=False).enqueue(jobs.works, 2)
recorded.requests()
""")
    assert found == ["caller", "rq jobs.fails error", "rq jobs.works"]


def test_dramatiq(bench: Bench) -> None:
    pytest.importorskip("dramatiq")
    found = recorded(bench, """
import dramatiq, recorded
from dramatiq.brokers.stub import StubBroker
broker = StubBroker()
dramatiq.set_broker(broker)
@dramatiq.actor(max_retries=0)
def works(): pass
@dramatiq.actor(max_retries=0)
def fails(): raise LookupError("x")
@dramatiq.actor(max_retries=0)
def calls(): works()
@dramatiq.actor(max_retries=0)
def again(): raise dramatiq.errors.Retry("later")
worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=2)
worker.start()
for actor in (works, fails, calls, again): actor.send()
broker.join("default", fail_fast=False, timeout=90_000)
worker.join()
worker.stop()
recorded.requests()
""")
    assert found == ["dramatiq again", "dramatiq calls", "dramatiq fails error", "dramatiq works"]


def test_arq(bench: Bench) -> None:
    pytest.importorskip("arq")
    pytest.importorskip("fakeredis")
    found = recorded(bench, """
import asyncio
import arq.worker, recorded
from arq.connections import ArqRedis
from fakeredis import FakeServer
from fakeredis.aioredis import FakeConnection
from redis.asyncio import ConnectionPool
async def works(ctx, n):
    await asyncio.sleep(0)
    return n
async def fails(ctx): raise LookupError("x")
async def again(ctx):
    if ctx["job_try"] == 1: raise arq.Retry()
async def not_known(*args): "The fake server does not answer INFO."
arq.worker.log_redis_info = not_known
async def main():
    pool = ArqRedis(connection_pool=ConnectionPool(connection_class=FakeConnection, server=FakeServer()))
    jobs = [await pool.enqueue_job(*job) for job in (("works", 1), ("fails",), ("again",))]
    functions = [works, fails, again]
    await arq.Worker(functions, redis_pool=pool, burst=True, handle_signals=False, poll_delay=0.01).main()
    assert await jobs[0].result() == 1
asyncio.run(main())
recorded.requests()
""")
    assert found == ["arq again", "arq again", "arq fails error", "arq works"]
