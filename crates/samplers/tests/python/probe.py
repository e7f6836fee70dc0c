"""Loads the stack reader (DASHCAM_PROBE names the shared library) and wraps it for the tests."""

import _thread
import ctypes
import os
import re
import sys
import threading
import time
import types

# The file of code that is run in another interpreter.
SCRIPT = "<script>" if sys.version_info >= (3, 14) else "<string>"

lib = ctypes.CDLL(os.environ["DASHCAM_PROBE"])
lib.probe_gil_holder.restype = ctypes.c_uint32
lib.probe_time_pass.restype = ctypes.c_uint64
# The same calls without letting go of the GIL: to look at a process that stands still.
held = ctypes.PyDLL(os.environ["DASHCAM_PROBE"])
held.probe_gil_holder.restype = ctypes.c_uint32


def text(function, *arguments):
    buffer = ctypes.create_string_buffer(1 << 20)
    length = function(*arguments, buffer, ctypes.c_size_t(len(buffer)))
    return ctypes.string_at(buffer, min(length, len(buffer))).decode()


def attach():
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    kinds = [types.CodeType, _thread.LockType, _thread.RLock, types.BuiltinMethodType]
    addresses = (ctypes.c_size_t * 5)(runtime, *map(id, kinds))
    reason = text(lib.probe_attach, ctypes.c_uint32(sys.hexversion), addresses)
    assert reason == "", reason


def stack(tid, limit=4096, library=lib):
    lines = text(library.probe_stack, ctypes.c_uint32(tid), ctypes.c_size_t(limit)).splitlines()
    assert lines[0].startswith("truncated="), lines[0]
    frames = [line.split("\t") for line in lines[1:]]
    return [(name, file, int(line)) for name, file, line in frames], lines[0] == "truncated=true"


def chain(frame):
    """What the reader must find, by CPython's own account."""
    out = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        out.append((name, code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return out


def asyncio_words():
    """Where asyncio keeps its tasks, and its running ones."""
    import _asyncio

    if sys.version_info >= (3, 14):
        lib.probe_task_table.restype = ctypes.c_size_t
        table = lib.probe_task_table()
        assert table, "no table of asyncio's tasks"
        return table, table
    name = "_scheduled_tasks" if hasattr(_asyncio, "_scheduled_tasks") else "_all_tasks"
    return id(getattr(_asyncio, name).data), id(_asyncio._current_tasks)


def changing(begin, parts, run):
    """What a thread of the reader's counted while `run` ran, beside threads of `parts`: three figures,
    which `begin` says."""
    begin()
    threads = [threading.Thread(target=part) for part in parts]
    for thread in threads:
        thread.start()
    try:
        run()
    finally:
        for thread in threads:
            thread.join()
        counted = text(lib.probe_changing_stop)
    figures = re.match(r"passes=(\d+) frames=(\d+) holders=(\d+)", counted)
    assert figures, counted
    return [int(figure) for figure in figures.groups()]


def until(condition, what, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out: " + what
        time.sleep(0.002)


def waiting(tid):
    """True once the thread is blocked in a futex that is not the GIL's."""
    return lib.probe_waits_for_gil(ctypes.c_uint32(tid)) == 0


def start(function, *arguments):
    """Starts a daemon thread and waits for its native id."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread
