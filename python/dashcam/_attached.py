"""Starts the recorder in a process that runs already, for `dashcam attach`.

How it works: crates/attach has the interpreter run a script, which calls `start` on a thread of its
own. Modules that are imported already are hooked as they are (`_integrations.install`): a hooked
function remains the same object from 3.12 on, and 3.9 and 3.10, so references that a server took
before are hooked, too; on 3.11 a class or module gets another one, so a reference of before is not.

What it promises: what goes wrong is an exception for the script, which reports it to the command;
nothing is raised in the program. Requests that are open at this moment are not recorded.

Missing on purpose: threads, tasks and connections of before are not renamed or restarted.
"""

from __future__ import annotations

import os
import sys
import zlib
from typing import Any

import dashcam
from dashcam import _native, _notices, _process


def start(settings: dict[str, str], tree: bool) -> dict[str, Any]:
    """Starts recording with these settings; the state for the command. `tree`: Python processes
    that this one starts as `multiprocessing` does are recorded, too."""
    why = getattr(_native, "why", "")
    if why:
        raise ImportError(str(why))
    # The calling thread is none of `threading`, so nothing else has done this.
    _native.thread_begins()
    _process.begin({**settings})
    # A child that was forked by an attached process begins with its first record: here.
    _native.is_on()
    status = dashcam.status()
    if not (status["on"] and "service" in status and "settings" in status and "sources" in status):
        found = status.get("last_error") or "its settings turn it off (DASHCAM_ENABLED)"
        raise RuntimeError(f"recording did not start: {found}")
    if tree:
        _record_spawned(settings, status["service"])
    out = os.path.abspath(status["settings"]["out"])
    return {
        "ok": True,
        "service": status["service"],
        "out": out,
        "control": status["sources"].get("control", "off"),
        "notices": [*_notices.notices(), *_unwritable(out)],
    }


def _unwritable(out: str) -> list[str]:
    """A notice if captures cannot be written there: the folder was chosen by another user."""
    existing = out
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK):
        return []
    return [f"captures cannot be written: found {existing}, which user {os.geteuid()} may not write to; attach again "
            "behind a detach, with another --out"]


def _record_spawned(settings: dict[str, str], service: str) -> None:
    """Gives the environment that `dashcam run` would have given: a worker that is started as a new
    interpreter (`multiprocessing`'s spawn, a reloader) begins to record by itself; other programs
    are left alone (_inject/sitecustomize.py)."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inject = os.path.join(package, "dashcam", "_inject")
    given = {f"DASHCAM_{name.upper()}": value for name, value in settings.items()}
    given |= {
        "DASHCAM_RUN": "1",
        "DASHCAM_PACKAGE_DIR": package,
        "DASHCAM_ROOT": _this_program(),
        "DASHCAM_ROOT_NAME": service,
    }
    given = {name: value for name, value in given.items() if name not in os.environ}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if inject not in paths:
        given["PYTHONPATH"] = os.pathsep.join([inject, *filter(None, paths)])
    _set_environment(given)


def _set_environment(given: dict[str, str]) -> None:
    """As `os.environ.update(given)`, but for `setenv`: that frees what another thread's `getenv` may
    be reading just now (in `getaddrinfo`, without the GIL)."""
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in given.items()}
    if not _native.add_to_environment(list(encoded.items())):
        raise RuntimeError("the program changes its environment at this moment; attach once more")
    known = getattr(os.environ, "_data", None)
    if isinstance(known, dict):
        known.update(encoded)


def _this_program() -> str:
    """The mark by which `sitecustomize` recognises the same program."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")[1:]
    except OSError:
        words = [os.fsencode(word) for word in sys.argv]
    return "%08x" % zlib.crc32(b"\0".join(words))


__all__ = ["start"]
