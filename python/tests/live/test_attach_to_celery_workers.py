"""`dashcam attach` on a Celery worker process that never saw dashcam, while it works: no task fails,
no result changes, and a capture afterwards has the right cause.

The broker is a folder of files. DASHCAM_ATTACHES sets how often the worker is attached to and
detached from.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, blames, wait_for
from test_attach_to_servers_under_load import ATTACHES, Load, Pauses, children_of, is_recorded

WORK = """
    import time
    from celery import Celery
    app = Celery("shop", broker="filesystem://", backend="file://FOLDER/results")
    app.conf.broker_transport_options = OPTIONS
    def backoff(): time.sleep(0.4)
    @app.task(name="shop.item")
    def item(name):
        if name == "slow": backoff()
        return "item " + name
"""


class Queue(Load):
    """Clients that send tasks all the time; what was not as expected is kept."""

    def __init__(self, app: Any) -> None:
        self.app = app
        super().__init__(port=0, clients=1)

    def ask(self, name: str) -> None:
        while not self.ended.is_set():
            try:
                result = self.result(name)
            except Exception as error:  # noqa: BLE001 whatever the client makes of it
                result = repr(error)
            if result != f"item {name}":
                self.wrong.append(result)
            self.answers += 1
            time.sleep(0.005)

    def result(self, name: str) -> str:
        """What the worker makes of one task."""
        sent = self.app.send_task("shop.item", [name])
        return str(sent.get(timeout=PATIENCE_S, interval=0.01))


class Worker:
    """A worker with one process that runs tasks, and its clients."""

    def __init__(self, bench: Bench) -> None:
        celery = pytest.importorskip("celery")
        for folder in ("queue", "control", "results"):
            (bench.folder / folder).mkdir()
        queue = str(bench.folder / "queue")
        options = {"data_folder_in": queue, "data_folder_out": queue, "polling_interval": 0.01,
                   "control_folder": str(bench.folder / "control")}
        code = WORK.replace("FOLDER", str(bench.folder)).replace("OPTIONS", repr(options))
        bench.write("work.py", code)
        self.process = bench.start([sys.executable, "-m", "celery", "-A", "work", "worker", "--concurrency", "1",
                                    "--without-gossip", "--without-mingle", "--without-heartbeat"])
        app = celery.Celery("client", broker="filesystem://", backend=f"file://{bench.folder}/results")
        app.conf.broker_transport_options = options
        self.load = Queue(app)
        wait_for("the first results", lambda: self.load.answers > 3)
        self.pid = str(children_of(self.process.pid)[0])

    def works_on(self) -> None:
        """Waits for a few more results."""
        seen = self.load.answers
        wait_for("results", lambda: self.load.answers > seen + 3)


@pytest.mark.seconds(3000)
def test_no_task_fails_while_its_worker_is_attached_to_and_detached_from(
        bench: Bench, record_property: Callable[[str, object], None]) -> None:
    worker, pauses = Worker(bench), Pauses()
    for turn in range(ATTACHES):
        attached = bench.dashcam("attach", worker.pid, "--slow", "30s", "--service", f"turn{turn}", "--out", "turns")
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        pauses.add(attached.stdout)
        worker.works_on()
        assert bench.dashcam("detach", worker.pid).returncode == 0
    pauses.record(record_property, worker.load.answers)
    assert bench.dashcam("attach", worker.pid, "--slow", "200ms", "--out", "captures").returncode == 0
    assert worker.load.result("slow") == "item slow"
    wait_for("a capture", bench.captures)
    assert (worker.load.end(), worker.process.poll()) == ([], None)
    verdict = bench.dashcam("why", "captures").stdout
    assert blames(verdict, "sleep", "work.py:", "backoff()"), verdict


@pytest.mark.seconds(3000)
def test_an_attacher_killed_at_any_moment_harms_no_task(bench: Bench) -> None:
    worker, chance = Worker(bench), random.Random(0x5EED)
    for _ in range(ATTACHES):
        attacher = bench.start([DASHCAM, "attach", worker.pid])
        time.sleep(chance.uniform(0, 0.06))
        attacher.kill()
        attacher.communicate(timeout=PATIENCE_S)
        worker.works_on()
        bench.dashcam("detach", worker.pid)
    pid = int(worker.pid)
    wait_for("an attach", lambda: bench.dashcam("attach", worker.pid).returncode == 0 or is_recorded(bench, pid))
    assert (worker.load.end(), worker.process.poll()) == ([], None)
    assert Path(f"/proc/{pid}").exists()
