"""Waits for a message in a queue of the kernel's (POSIX), which no rule knows: the time must be told
as unexplained, with its place. The twin does not wait."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import ctypes  # noqa: E402
import time  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
name = b"/mailbox-%d" % os.getpid()
box = libc.mq_open(name, os.O_RDONLY | os.O_CREAT, 0o600, None)
if box < 0:
    sys.exit(f"mq_open: {os.strerror(ctypes.get_errno())}")
libc.mq_unlink(name)


def collect() -> None:
    """At most half a second: nobody writes."""
    letter, end = ctypes.create_string_buffer(65536), time.time() + 0.5
    limit = (ctypes.c_long * 2)(int(end), int(end % 1 * 1e9))
    libc.mq_timedreceive(box, letter, ctypes.c_size_t(65536), None, limit)


def answer(n: int) -> str:
    if service.SICK and n % 90 == 45:
        collect()
    return str(service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
