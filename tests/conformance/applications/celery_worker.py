"""A Celery worker with each of its pools: `celery_worker.py --pool POOL`. It gets the tasks of
celery_tasks.py from a folder, and ends by a signal when their results have come.

Missing on purpose: a broker that is a server.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import uuid
from pathlib import Path
from typing import Any

from celery import signals
from celery_tasks import app, asks, calls, fails, ignores, rejects, retries
from kombu.transport import filesystem
from kombu.utils.json import dumps
from noting import frames, note


class _WholeMessages(filesystem.Channel):
    """kombu's own channel shows a file before its message is in it: a worker that reads it then
    ends with an error."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        written = Path(self.data_folder_out, f"{int(time.monotonic() * 1000)}_{uuid.uuid4()}")
        written.write_text(dumps(payload), encoding="utf-8")
        written.rename(f"{written}.{queue}.msg")


filesystem.Transport.Channel = _WholeMessages


def _sent(task: Any) -> Any:
    """Sent, in a millisecond of its own: the folder's messages are ordered by it."""
    last = int(time.monotonic() * 1000)
    while int(time.monotonic() * 1000) == last:
        time.sleep(0.001)
    return task.delay()


def _ask() -> None:
    for task in (asks, fails, retries, calls):
        result = _sent(task)
        try:
            note("asker", task.name, "gave", result.get(timeout=60, disable_sync_subtasks=False))
        except Exception as error:  # noqa: BLE001
            note("asker", task.name, frames(error), result.traceback)
    _sent(rejects), _sent(ignores)
    _sent(asks).get(timeout=60, disable_sync_subtasks=False)


def _ask_and_end(**_: Any) -> None:
    def both() -> None:
        try:
            _ask()
        except Exception:  # noqa: BLE001
            note("asker", "fails", traceback.format_exc())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=both).start()


def main(pool: str) -> None:
    """Until the signal."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("queue", "results", "processed"):
            Path(folder, name).mkdir()
        queue = {f"data_folder_{way}": f"{folder}/queue" for way in ("in", "out")}
        app.conf.update(broker_url="filesystem://", result_backend=f"file://{folder}/results", worker_redirect_stdouts=False,
                        broker_transport_options={**queue, "control_folder": f"{folder}/control"})
        signals.worker_ready.connect(_ask_and_end, weak=False)
        for name in ("task_prerun", "task_postrun", "task_failure", "worker_process_init", "worker_process_shutdown"):
            getattr(signals, name).connect(lambda signal, **given: note("", signal.name, sorted(given)), weak=False)
        app.worker_main(["worker", "--pool", pool, "--concurrency", "1", "--loglevel", "INFO", "--without-mingle",
                         "--without-gossip", "--without-heartbeat"])


if __name__ == "__main__":
    main(sys.argv[2])
