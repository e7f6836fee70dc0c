"""`dashcam.LogHandler`: log records as events of the black box, beside the spans they belong to.
`dashcam.LogFilter`: the ids of request and trace in log records, so that a line leads to both.

    logging.getLogger().addHandler(dashcam.LogHandler(level=logging.WARNING))
    handler.addFilter(dashcam.LogFilter())      # for "%(request_id)s %(trace_id)s %(message)s"

The event is named as the logger; its attributes are `level`, `message` (cut to 512 bytes of UTF-8)
and `error`, the type of the exception if there is one. It belongs to the current request.

How it works: logging takes longer to import than all of dashcam, and a program may not need it. So
the classes get `logging.Handler` and `logging.Filter` as their bases when logging is there, at the
latest with the first object or subclass.

What it promises: it takes no lock and makes no system call, raises nothing and prints nothing.
Records that a record's own arguments log while they are turned into text are ignored here (other
handlers get them), so that the handler never calls itself. Each logger's name uses one of the
recorder's names: an unbounded number of loggers uses them up, and further ones are counted there.
"""

from __future__ import annotations

import sys
from _thread import _local

from dashcam import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Filter as _Filter
    from logging import Handler as _Base
    from logging import LogRecord
    from typing import Any
else:
    class _Base:
        """In place of `logging.Handler` until `_join_logging`."""

    class _Filter:
        """In place of `logging.Filter` until `_join_logging`."""


__all__ = ["LogFilter", "LogHandler"]

_MOST = 512


class _Inside(_local):
    emitting = False


_inside = _Inside()


def _cut(text: str) -> str:
    """At most 512 bytes of UTF-8, whole characters."""
    if len(text) <= _MOST and text.isascii():
        return text
    return text[:_MOST].encode("utf-8", "replace")[:_MOST].decode("utf-8", "ignore")


class LogHandler(_Base):
    """Records -> events. `failed`: records whose text could not be made; their event says so."""

    failed = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> LogHandler:
        """The first one imports logging."""
        _join_logging()
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """As `__new__`."""
        _join_logging()
        super().__init_subclass__(**kwargs)

    def handle(self, record: LogRecord) -> Any:
        """Without the lock that other handlers take: a thread never waits for another here."""
        passed: Any = self.filter(record)
        if hasattr(passed, "getMessage"):  # a filter may put another in its place
            record = passed
        if passed:
            self.emit(record)
        return passed

    def emit(self, record: LogRecord) -> None:
        """Records one event."""
        if _inside.emitting or not _native.is_on():
            return
        _inside.emitting = True
        try:
            try:
                message = _cut(record.getMessage())
            except Exception as error:  # noqa: BLE001  arguments may raise anything
                if _native.interrupts(error):
                    raise
                self.failed += 1
                message = _cut(f"not readable ({type(error).__name__}): {record.msg!s:.30}")
            said = {"level": record.levelname, "message": message}
            kind = record.exc_info[0] if record.exc_info else None
            if kind is not None:
                said["error"] = kind.__name__
            _native.event(record.name, **said)
        except Exception as error:  # noqa: BLE001  a host's log call never fails for us
            if _native.interrupts(error):
                raise
            self.failed += 1
        finally:
            _inside.emitting = False


class LogFilter(_Filter):
    """Adds `request_id` (as in captures; 0 outside of requests) and `trace_id` (32 hex digits;
    empty outside) to each record, for formatters. A record that has such an attribute keeps it, and
    none is refused. It belongs to a handler, or to the logger whose records it shall change."""

    def __new__(cls, *args: Any, **kwargs: Any) -> LogFilter:
        """The first one imports logging."""
        _join_logging()
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """As `__new__`."""
        _join_logging()
        super().__init_subclass__(**kwargs)

    def filter(self, record: LogRecord) -> bool:
        """Adds the ids; always true."""
        given = record.__dict__
        if "request_id" not in given:
            given["request_id"] = _native.current_request()
        if "trace_id" not in given:
            given["trace_id"] = _native.trace_id() or ""
        return True


def _join_logging() -> None:
    import logging

    if LogHandler.__bases__ == (_Base,) and _Base is not logging.Handler:
        LogHandler.__bases__ = (logging.Handler,)
        LogFilter.__bases__ = (logging.Filter,)


if hasattr(sys.modules.get("logging"), "Handler"):
    _join_logging()
