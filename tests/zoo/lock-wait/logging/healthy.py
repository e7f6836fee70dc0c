"""Log records wait for their handler's own lock while the handler turns to a new page. The twin
prepares the page before it takes the lock."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import collections  # noqa: E402
import logging  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

log = logging.getLogger("diary")


class Diary(logging.Handler):
    """Keeps the last lines in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: collections.deque[str] = collections.deque(maxlen=500)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def turn_page(self) -> None:
        time.sleep(0.45)
        self.acquire()
        try:
            self.lines.clear()
        finally:
            self.release()


def archivist(diary: Diary) -> None:
    while True:
        time.sleep(2.2)
        diary.turn_page()


def note(n: int) -> None:
    log.info("answered %d", n)


def answer(n: int) -> str:
    total = service.honest_work(n)
    note(n)
    return str(total)


if __name__ == "__main__":
    book = Diary()
    log.addHandler(book)
    log.setLevel(logging.INFO)
    log.propagate = False
    threading.Thread(target=archivist, args=(book,), daemon=True).start()
    service.plain(answer)
