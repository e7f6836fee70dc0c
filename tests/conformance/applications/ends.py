"""A program that ends: `ends.py HOW`. It records the order of the last steps."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from typing import Any

from noting import all_threads, note, stack


class _Last:
    def __del__(self) -> None:
        note("", "collected")


def _at_exit(which: str) -> None:
    note("", "at exit", which, all_threads(), stack())


def _handled(number: int, frame: Any) -> None:
    note("", "signal", number, frame.f_code.co_name)
    sys.exit(7)


def _hook(*error: Any) -> None:
    note("", "hook", error[0].__name__)
    sys.__excepthook__(*error)


def _in_a_thread(body: Any, **more: Any) -> None:
    thread = threading.Thread(target=body, **more)
    thread.start()
    if not more:
        thread.join()


def _raises() -> None:
    raise LookupError("nobody takes it")


def _forks() -> None:
    child = os.fork()
    if child:
        note("", "child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def main(how: str) -> None:
    """Ends."""
    note("", "begins", all_threads(), stack())
    kept = _Last()
    for which in ("first", "second"):
        atexit.register(_at_exit, which)
    weakref.finalize(kept, note, "", "finalized")
    sys.excepthook = _hook
    threading.excepthook = lambda given: note("", "in a thread", given.exc_type.__name__, given.thread is None)
    endings = {
        "by returning": lambda: None, "with a code": lambda: sys.exit(3), "with words": lambda: sys.exit("these"),
        "by an error": _raises, "by os._exit": lambda: os._exit(4), "by a signal": lambda: signal.raise_signal(signal.SIGTERM),
        "by kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "by SIGINT": lambda: signal.raise_signal(signal.SIGINT),
        "by a handled signal": lambda: (signal.signal(signal.SIGTERM, _handled), signal.raise_signal(signal.SIGTERM)),
        "by another program": lambda: os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(9)"]),
        "with an error in a thread": lambda: _in_a_thread(_raises),
        "with a daemon": lambda: _in_a_thread(threading.Event().wait, daemon=True), "twice": _forks,
        "by abort": os.abort, "by recursion": lambda: (lambda again: again(again))(lambda again: again(again)),
    }
    endings[how]()


main(sys.argv[1].replace("_", " "))
