"""A background thread parses a large document: one C call that keeps the GIL. The twin's is small."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import gc  # noqa: E402
import json  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

ROWS = 1_200_000 if service.SICK else 500
DOCUMENT = json.dumps([{"a": i, "b": str(i)} for i in range(ROWS)])


def unfold() -> int:
    return len(json.loads(DOCUMENT))


def importer() -> None:
    while True:
        time.sleep(1.5)
        unfold()


def answer(n: int) -> str:
    if n == 1:  # in the worker: a thread started before the fork would not be there
        threading.Thread(target=importer, name="importer", daemon=True).start()
    return str(service.honest_work(n))


if __name__ == "__main__":
    gc.disable()
    service.gunicorn(answer)
