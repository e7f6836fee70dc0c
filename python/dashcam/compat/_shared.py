"""What the compatible APIs share: refused calls with their counter, and the server that the
environment names.

Reasons: `value` (not a number, not a name), `tags` (not text; a key twice: the last one counts),
`misuse` (a timer that was not started, `timed` without a name), `timestamp` (counted now instead),
`mark` (an event or check that no server accepted), `api` (a call of datadog.api that would need
HTTP).
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from time import perf_counter
from typing import Any, Callable, TypeVar

from dashcam import _native

F = TypeVar("F", bound=Callable[..., Any])
# As crates/statsd/src/env.rs reads them.
_TARGETS = ("STATSD_SOCKET_PATH", "STATSD_SOCKET", "STATSD_ADDR")
_DD_TARGETS = ("DD_DOGSTATSD_URL", "DD_DOGSTATSD_SOCKET", "DD_AGENT_HOST")
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")

_refused: dict[str, int] = {}
_warned: set[str] = set()


def refused() -> dict[str, int]:
    """Reason -> calls that were refused, or only counted in part, in this process. If two threads
    count at one instant, one may be missing here; the metric `dashcam.compat.refused` counts all.
    """
    return dict(_refused)


def refuse(reason: str, text: str) -> None:
    """Counts a refused call; reports the first of each reason on stderr."""
    _refused[reason] = _refused.get(reason, 0) + 1
    _native.count("dashcam.compat.refused", 1, tags={"reason": reason})
    say(reason, f"{text}; further ones are only counted, in dashcam.compat.refused")


def shown(value: object, how: Callable[[object], str] = repr) -> str:
    """A value for a message; its own methods may raise anything."""
    try:
        return how(value)[:200]
    except Exception:  # noqa: BLE001
        return f"<{type(value).__name__}>"


def as_float(value: object) -> float | None:
    """A value that is no int or float but that the clients accept as one: Decimal, numpy's, "5".
    None: it is one already, or cannot be."""
    if isinstance(value, (int, float)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001
        return None


def timed_calls(function: F, note: Callable[[float], None], named: Any = None) -> F:
    """`function`, plain or async, with `note(begin)` behind each call. `named`: what has the name of a
    plain one, if that is another."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            begin = perf_counter()
            try:
                return await function(*args, **kwargs)
            finally:
                note(begin)

        return waiting  # type: ignore[return-value]

    @functools.wraps(named or function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        begin = perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            note(begin)

    return calling  # type: ignore[return-value]


def say(key: str, text: str) -> None:
    """A line on stderr, once for each key. A broken stderr is ignored."""
    if key in _warned:
        return
    _warned.add(key)
    try:
        print(f"dashcam: {text}", file=sys.stderr)
    except (OSError, ValueError, AttributeError):
        pass


def target() -> str | None:
    """The server that the environment names, as it is written there; None: none."""
    def found(name: str) -> str:
        return os.environ.get(name, "").strip()

    own = found("DASHCAM_STATSD")
    if own.lower() != "env":
        return None if own.lower() in ("", *_NO) else own
    for name in _TARGETS:
        if text := found(name):
            return text
    if found("DD_DOGSTATSD_DISABLE").lower() in _YES:
        return None
    for name in _DD_TARGETS:
        if text := found(name):
            if name == "DD_AGENT_HOST":
                return f"{text}:{found('DD_DOGSTATSD_PORT') or 8125}"
            return text
    return None


def same_server(wanted: str, is_usual: bool) -> None:
    """Reports once for each server that lines do not go where the code says. `wanted`:
    udp://host:port or unix:///path. `is_usual`: the code left it at the client's default."""
    found = target()
    if found is None:
        say(f"server {wanted}", f"metrics for {wanted} stay in the black box: the environment names "
            f"no StatsD server and the code's is not used; to send them set DASHCAM_STATSD={wanted}")
    elif not is_usual and wanted.split("://")[-1] not in found:
        say(f"server {wanted}", f"metrics for {wanted} go to {found}: the environment decides, "
            "the code's server is not used")
