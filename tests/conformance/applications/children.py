"""A program that makes threads and processes in every way, and records what it sees of them."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
import warnings
from typing import Any

from noting import frames, note, stack, threads


def _child(what: str) -> Any:
    note("", what, stack(), threads(), multiprocessing.current_process().name.split("-")[0])
    if what.endswith("fails"):
        raise LookupError(what)
    return what


def _shown(what: str, call: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            note("", what, "gave", call())
        except BaseException as error:  # noqa: BLE001
            note("", what, frames(error), "".join(traceback.format_exception(type(error), error, error.__traceback__)))
    note("", what, "warned", [(w.category.__name__, str(w.message), w.lineno) for w in caught])


def _forked() -> int:
    child = os.fork()
    if child == 0:
        note("", "in the child", stack(), threads())
        os._exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _process(method: str, what: str) -> Any:
    process = multiprocessing.get_context(method).Process(target=_child, args=(what,))
    process.start()
    process.join()
    return process.exitcode


def _pooled(kind: Any, what: str) -> Any:
    with kind(1) as pool:
        future = pool.submit(_child, what)
        # `result` has one line for a wait and another without
        concurrent.futures.wait([future])
        return future.result()


def _many(method: str) -> Any:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(abs, [-1, 2, -3])


def main() -> None:
    """All of it."""
    _shown("fork", _forked)
    _shown("fork, terminal", _terminal)
    for method in ("fork", "spawn", "forkserver"):
        for what in ("process", "process that fails"):
            _shown(f"{method}: {what}", lambda m=method, w=what: _process(m, w))
        _shown(f"{method}: pool", lambda m=method: _many(m))
    for kind in (concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor):
        for what in ("pooled", "pooled one fails"):
            _shown(f"{kind.__name__} {what}", lambda k=kind, w=what: _pooled(k, w))
    said = [sys.executable, "-c", "import threading, sys; print(threading.active_count(), len(sys.argv))"]
    _shown("subprocess", lambda: subprocess.check_output(said))
    _shown("subprocess, prepared", lambda: subprocess.check_output(said, preexec_fn=lambda: None))
    _shown("missing", lambda: subprocess.check_output(["/nowhere/nothing"]))
    _shown("execv", lambda: os.execv("/nowhere/nothing", ["x"]))
    _shown("execve", lambda: os.execve("/nowhere/nothing", ["x"], {}))
    thread = threading.Thread(target=_child, args=("thread",))
    thread.start()
    thread.join()
    waiting = threading.Event()
    other = threading.Thread(target=waiting.wait)
    other.start()
    _shown("fork beside a thread", _forked)
    waiting.set()
    other.join()


def _terminal() -> int:
    child, terminal = os.forkpty()
    if child == 0:
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.close(terminal)  # before, it would be the child's end
    return status


if __name__ == "__main__":
    main()
