"""What recording needs from the process: hooks for gc, exit, threads, and the folders. A forked
child starts a new recorder by itself, in the native module, at its first record.

Everything is hooked once, at the first `start`, and remains: a hook of a stopped recorder costs one
call that returns at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

from dashcam import _notices, _under_gil

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from typing import Any, Callable, TypeVar

    _Start = TypeVar("_Start", bound=Callable[..., bool])

_hooked = False
_settings: dict[str, str] | None = None
# The predicate of the setting `when`.
_when: Any = None


def starts(declared: _Start) -> _Start:
    """The function behind `dashcam.start`, whose parameters are `declared`. It takes any name, so
    that the recorder refuses an unknown one as it refuses a wrong value, and it gets only what the
    caller gave: a default is not a wish."""
    def start(**settings: Any) -> bool:
        return begin(settings)

    start.__doc__, start.__module__ = declared.__doc__, declared.__module__
    start.__qualname__, start.__annotations__ = declared.__qualname__, declared.__annotations__
    start.__wrapped__ = declared  # type: ignore[attr-defined]  # what inspect.signature shows
    return start  # type: ignore[return-value]


def begin(settings: dict[str, Any]) -> bool:
    """Starts the recorder and hooks the process."""
    from dashcam import _native as native

    when = settings.pop("when", None)
    if when is not None and not callable(when):
        raise ValueError(f"when: found {when!r}, wanted a callable (name, seconds, error) -> bool")
    given = {name: _text(value) for name, value in settings.items() if value is not None}
    global _settings, _when
    if native.is_started():
        native.check_settings(given)
        # A predicate has no environment variable: with `dashcam run` the program gives it.
        if when is not None and _when is None:
            _when = when
            native.when(when)
        if _settings is not None:
            _report_unused([name for name in given if given[name] != _settings.get(name)])
        return False
    from dashcam import _application  # imports the integrations: only for a process that records

    stdlib, site, package = _folders()
    native.set_runtime(stdlib, site, _application.packages(site), package)
    started = bool(native.start(given))
    if started:
        _settings, _when = given, when
        _hook(native)
        _under_gil.begin()
        if when is not None:
            native.when(when)
    return started


def _report_unused(names: list[str]) -> None:
    """One line about settings of a `start` that came too late, which is the usual case under
    `dashcam run`. Those that a variable gives are not late: it would have won anyway. Values may be
    secrets."""
    variables = {name: f"DASHCAM_{name.upper()}" for name in names}
    late = {name: variable for name, variable in variables.items() if variable not in os.environ}
    if late:
        try:
            print(f"dashcam: recording has begun before this start(): its {', '.join(late)} "
                  f"{'is' if len(late) == 1 else 'are'} not used; wanted as {', '.join(late.values())}, "
                  "or as flags of `dashcam run` or `attach`", file=sys.stderr)
        except (OSError, ValueError, AttributeError):  # closed, or None
            pass


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _folders() -> tuple[list[str], list[str], str]:
    try:
        import sysconfig

        paths = sysconfig.get_paths()
    except Exception:  # noqa: BLE001 - a program that gave up its rights may not read the library
        paths = {}
    stdlib = {paths[key] for key in ("stdlib", "platstdlib") if paths.get(key)}
    # In a virtual environment the library lies beside the base interpreter.
    stdlib.add(os.path.dirname(os.__file__))
    site = {paths[key] for key in ("purelib", "platlib") if paths.get(key)}
    site |= {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    package = os.path.dirname(os.path.abspath(__file__))
    return sorted(stdlib), sorted(site), package


def _hook(native: Any) -> None:
    global _hooked
    _name_existing_threads(native)
    if _hooked:
        return
    _hooked = True
    native.watch_collections(gc, native.gc_callback)
    atexit.register(_before_exit, native)
    native.hook_builtins()
    _name_new_threads(native)
    _start_threads_apart(native)
    from dashcam import _integrations

    _integrations.install(native)


def _before_exit(native: Any) -> None:
    # Set by the interpreter once it has shown the exception that ends the program.
    _under_gil.end()
    kind = getattr(sys, "last_type", None)
    native.before_exit(getattr(kind, "__name__", "") or "")
    # What remains of us must not keep the program's objects from being finalized.
    global _when
    _when = None
    native.remove_hooks()
    native.release_cursors()


def _name_existing_threads(native: Any) -> None:
    import threading

    # At most the main thread, unless the recorder came late (`dashcam attach`).
    for thread in threading.enumerate():
        if (own := getattr(thread, "native_id", None)) == threading.get_native_id():
            native.name_thread(thread.name)
        elif own is not None:  # eventlet has threads without one
            native.threads_were_there()
            native.name_tid(own, thread.name)


def _name_new_threads(native: Any) -> None:
    """Python threads do not give the kernel their name before 3.14; they give it to the recorder as
    they begin.
    """
    import threading

    def after(result: None, self: threading.Thread) -> None:
        native.name_thread(self.name)
        # A thread that the interpreter did not start ends by rules of its own.
        if not isinstance(self, threading._DummyThread):
            native.thread_begins()

    try:
        native.hook(threading.Thread, "_set_native_id", after=after)
    except (AttributeError, TypeError) as error:
        _notices.notice(f"threading is not as expected, threads bear the kernel's names: {error}")


def _start_threads_apart(native: Any) -> None:
    """A thread may outlive the request it was started in, and the worker of a pool does: where it
    inherits the context, it works for no request until one is handed over to it.
    """
    if not getattr(sys.flags, "thread_inherit_context", False):
        return
    import threading

    try:
        native.hook(threading.Thread, "start", around=native.start_apart)
    except (AttributeError, TypeError) as error:
        _notices.notice(f"threading is not as expected, threads inherit the request they are started in: {error}")
