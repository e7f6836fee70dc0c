"""`dashcam attach` on a Celery worker process that never saw dashcam, while it works: no task fails,
no result changes, and a capture afterwards has the right cause.

The broker is a folder of files, and so are the results; both are renamed when they are whole, since
Celery's own transport and backend for files let others read half of one.
DASHCAM_ATTACHES sets how often the worker is attached to and
detached from.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, blames, wait_for
from test_attach_to_servers_under_load import ATTACHES, Load, Pauses, children_of, is_recorded

WORK = """
    import os, time
    from celery import Celery
    app = Celery("shop", broker="filesystem://")
    app.conf.broker_transport_options = OPTIONS
    def backoff(): time.sleep(0.4)
    @app.task(name="shop.item", ignore_result=True)
    def item(name, result):
        if name == "slow": backoff()
        with open(result + ".half", "w") as file: file.write("item " + name)
        os.rename(result + ".half", result)
"""


class Queue(Load):
    """A client that sends tasks all the time; what was not as expected is kept."""

    def __init__(self, app: Any, folder: Path) -> None:
        self.app, self.folder, self.sent, self.sending = app, folder, itertools.count(), threading.Lock()
        super().__init__(port=0, clients=1)

    def ask(self, name: str) -> None:
        while not self.ended.is_set():
            result = self.result(name)
            if result != f"item {name}":
                self.wrong.append(result)
            self.answers += 1
            time.sleep(0.005)

    def result(self, name: str) -> str:
        """What the worker makes of one task; "" after a long time without."""
        path = self.folder / "results" / f"{next(self.sent)}"
        with self.sending:
            self.app.send_task("shop.item", [name, str(path)])
            for whole in list((self.folder / "sent").iterdir()):
                whole.rename(self.folder / "queue" / whole.name)
        end = time.monotonic() + PATIENCE_S
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.005)
        return path.read_text("utf-8") if path.exists() else ""


class Worker:
    """A worker with one process that runs tasks, and its clients."""

    def __init__(self, bench: Bench) -> None:
        celery = pytest.importorskip("celery")
        folder = {name: str(bench.folder / name) for name in ("sent", "queue", "control", "results")}
        for path in folder.values():
            Path(path).mkdir()
        options = {"data_folder_in": folder["queue"], "polling_interval": 0.01, "control_folder": folder["control"]}
        bench.write("work.py", WORK.replace("OPTIONS", repr({**options, "data_folder_out": folder["queue"]})))
        self.process = bench.start([sys.executable, "-m", "celery", "-A", "work", "worker", "--concurrency", "1",
                                    "--without-gossip", "--without-mingle", "--without-heartbeat"])
        app = celery.Celery("client", broker="filesystem://")
        app.conf.broker_transport_options = {**options, "data_folder_out": folder["sent"]}
        self.load = Queue(app, bench.folder)
        wait_for("the first results", lambda: self.load.answers > 3)
        self.pid = str(children_of(self.process.pid)[0])

    def works_on(self) -> None:
        """Waits for a few more results."""
        seen = self.load.answers
        wait_for("results", lambda: self.load.answers > seen + 3)


@pytest.mark.seconds(3000)
def test_no_task_fails_while_its_worker_is_attached_to_and_detached_from(
        bench: Bench, request: pytest.FixtureRequest) -> None:
    worker, pauses = Worker(bench), Pauses()
    for turn in range(ATTACHES):
        attached = bench.dashcam("attach", worker.pid, "--slow", "30s", "--service", f"turn{turn}", "--out", "turns")
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        pauses.add(attached.stdout)
        worker.works_on()
        assert bench.dashcam("detach", worker.pid).returncode == 0
    pauses.record(request, worker.load.answers)
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
