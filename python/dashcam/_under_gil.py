"""Stacks of an interpreter whose memory cannot be read (an unknown version): this thread calls the
interpreter's own API, a few times a second, for a few threads (crates/dashcam/src/under_gil.rs).

It exists only where it is needed. It ends with recording, and before the interpreter does: from
then on no code of dashcam waits for the GIL. A forked child starts its own when it begins to
record.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The originals, before another library (gevent) replaces them.
_start, _lock = _thread.start_new_thread, _thread.allocate_lock
# Time for its begin, and for its last sample to end.
_PATIENCE_S = 2.0

# Of the running thread: its process; released to end it; released by it when it has ended.
_running: tuple[int, Any, Any] | None = None


def begin() -> None:
    """Starts it, if stacks cannot be sampled otherwise."""
    from dashcam import _native

    global _running
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if not _native.stacks_are_refused() or not has_gil:
        return
    import signal  # here, so that the thread need not
    import threading

    active: dict[int, Any] | None = getattr(threading, "_active", None)
    if active is None:
        return
    _let_end()
    begun, stop, ended = _lock(), _lock(), _lock()
    for lock in (begun, stop, ended):
        lock.acquire()
    _running = os.getpid(), stop, ended
    try:
        _start(_run, (_native, signal, active, begun, stop, ended))
    except RuntimeError:  # no thread to be had, or none any more
        _running = None
    else:
        # A fork before it has its name would warn of it.
        begun.acquire(True, _PATIENCE_S)


def _run(native: Any, signal: Any, active: dict[int, Any], begun: Any, stop: Any, ended: Any) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        native.begin_under_gil()
        begun.release()
        pause = native.sample_under_gil(active)
        while pause >= 0 and not stop.acquire(True, pause):
            pause = native.sample_under_gil(active)
    except Exception:  # noqa: BLE001  the source reports its state; the host gets nothing on stderr
        pass
    finally:
        for lock in (begun, ended):
            if lock.locked():
                lock.release()


def end() -> None:
    """Ends it, and waits until it has; at most two seconds."""
    ended = _let_end()
    if ended is not None:
        ended.acquire(True, _PATIENCE_S)


def _let_end() -> Any:
    global _running
    running, _running = _running, None
    # The parent's thread does not exist in a forked child.
    if running is None or running[0] != os.getpid():
        return None
    _, stop, ended = running
    if stop.locked():
        stop.release()
    return ended
