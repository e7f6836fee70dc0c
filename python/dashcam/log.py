"""`dashcam.LogHandler`: log records as events of the black box, beside the spans they belong to.

    logging.getLogger().addHandler(dashcam.LogHandler(level=logging.WARNING))

The event is named as the logger; its attributes are `level`, `message` (cut to 64 bytes of UTF-8)
and `error`, the type of the exception if there is one. It belongs to the current request.

What it promises: it takes no lock and makes no system call, raises nothing and prints nothing.
Records that a record's own arguments log while they are turned into text are ignored here (other
handlers get them), so that the handler never calls itself. Each logger's name uses one of the
recorder's names: an unbounded number of loggers uses them up, and further ones are counted there.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from dashcam import _native

__all__ = ["LogHandler"]

_MOST = 64


class _Inside(threading.local):
    emitting = False


_inside = _Inside()


def _cut(text: str) -> str:
    """At most 64 bytes of UTF-8, whole characters."""
    if len(text) <= _MOST and text.isascii():
        return text
    return text[:_MOST].encode("utf-8", "replace")[:_MOST].decode("utf-8", "ignore")


class LogHandler(logging.Handler):
    """Records -> events. `failed`: records whose text could not be made; their event says so."""

    failed = 0

    def handle(self, record: logging.LogRecord) -> Any:
        """Without the lock that other handlers take: a thread never waits for another here."""
        passed = self.filter(record)
        if isinstance(passed, logging.LogRecord):  # a filter may put another in its place
            record = passed
        if passed:
            self.emit(record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        """Records one event."""
        if _inside.emitting or not _native.is_on():
            return
        _inside.emitting = True
        try:
            try:
                message = _cut(record.getMessage())
            except Exception as error:  # noqa: BLE001  arguments may raise anything
                self.failed += 1
                message = _cut(f"not readable ({type(error).__name__}): {record.msg!s:.30}")
            said = {"level": record.levelname, "message": message}
            kind = record.exc_info[0] if record.exc_info else None
            if kind is not None:
                said["error"] = kind.__name__
            _native.event(record.name, **said)
        except Exception:  # noqa: BLE001  a host's log call never fails for us
            self.failed += 1
        finally:
            _inside.emitting = False
