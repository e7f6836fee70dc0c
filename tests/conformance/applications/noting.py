"""What an application sees, written down for the comparison: one line of JSON for each note, in one
write.

A note belongs to the exchange that the client's header `X-Case` names; "" is none. Values that
differ from run to run (addresses, ports, ids, times) are removed by the comparison, not here.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
import traceback
import types
from collections import abc
from typing import Any

_files: dict[str, int] = {}


def note(case: str, *said: Any) -> None:
    """One line."""
    path = os.environ["CONFORMANCE_NOTES"]
    if path not in _files:
        _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_files[path], (json.dumps([case, *map(str, said)]) + "\n").encode())


_KINDS = [getattr(inspect, name) for name in sorted(dir(inspect))
          if name.startswith("is") and name not in ("iskeyword",) and callable(getattr(inspect, name))]
_CLASSES = [types.FunctionType, types.MethodType, types.CoroutineType, types.GeneratorType, type, dict, list, tuple,
            abc.Callable, abc.Coroutine, abc.Awaitable, abc.Iterable, abc.Iterator, abc.Sized, abc.Mapping]


def kinds(thing: Any) -> str:
    """What can be found out about an object without using it."""
    with_warnings = []
    for kind in _KINDS:
        try:
            if kind(thing):
                with_warnings.append(kind.__name__)
        except Exception as error:  # noqa: BLE001
            with_warnings.append(f"{kind.__name__}: {error!r}")
    if sys.version_info < (3, 14) and asyncio.iscoroutinefunction(thing):
        with_warnings.append("asyncio.iscoroutinefunction")
    if asyncio.iscoroutine(thing):
        with_warnings.append("asyncio.iscoroutine")
    classes = [kind.__name__ for kind in _CLASSES if isinstance(thing, kind)]
    try:
        signature = str(inspect.signature(thing)) if callable(thing) else "not callable"
    except (TypeError, ValueError) as error:
        signature = repr(error)
    return json.dumps([with_warnings, classes, signature, sorted(dir(thing)), repr(thing), thing.__class__.__name__])


def stack() -> str:
    """The functions below the caller, outermost last."""
    return json.dumps([f"{os.path.basename(frame.filename)}:{frame.function}" for frame in inspect.stack(0)[1:]])


def frames(error: BaseException) -> str:
    """The path of an exception through the code, and what it is."""
    passed = [f"{os.path.basename(f.filename)}:{f.name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    return json.dumps([repr(error), repr(error.__cause__), repr(error.__context__), passed])


def threads() -> str:
    """The calling thread, and any thread of dashcam's that the program knows. How long pools'
    threads live depends on when garbage is collected."""
    ours = [thread.name for thread in threading.enumerate() if "dashcam" in thread.name]
    return json.dumps([threading.current_thread().name, ours])


def all_threads() -> str:
    """All threads that the program knows, if it made them all itself."""
    return json.dumps([threading.active_count(), sorted(thread.name for thread in threading.enumerate())])
