"""Celery: a worker in a thread of this program, and tasks of every kind, called and called in
place.
"""

from __future__ import annotations

from typing import Any

import celery
from celery.contrib.testing.worker import start_worker
from noting import frames, kinds, note, stack

app = celery.Celery("tasks", broker="memory://", backend="cache+memory://")
app.conf.task_store_errors_even_if_ignored = True


@app.task(bind=True)
def asks(self: Any) -> str:
    note("", "asks", stack(), self.name, sorted(self.request.headers or ()), kinds(type(self).__trace__))
    return "asked"


@app.task
def fails() -> None:
    raise LookupError("in a task")


@app.task(bind=True, max_retries=2)
def retries(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0, exc=LookupError("again"))
    return int(self.request.retries)


@app.task(bind=True)
def rejects(self: Any) -> None:
    raise celery.exceptions.Reject("no", requeue=False)


@app.task
def ignores() -> None:
    raise celery.exceptions.Ignore


@app.task
def calls() -> Any:
    return asks.apply().get()


def main() -> None:
    """All of them."""
    with start_worker(app, perform_ping_check=False, loglevel="CRITICAL"):
        for task in (asks, fails, retries, calls):
            result = task.delay()
            try:
                note("", task.name, "gave", result.get(timeout=60))
            except Exception as error:  # noqa: BLE001
                note("", task.name, frames(error), result.traceback)
        rejects.delay(), ignores.delay()
        asks.delay().get(timeout=60)
    for task in (asks, fails, retries, ignores):
        try:
            note("", task.name, "in place", task.apply().get())
        except Exception as error:  # noqa: BLE001
            note("", task.name, "in place", frames(error))


if __name__ == "__main__":
    main()
