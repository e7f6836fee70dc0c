"""A service of one thread gives dashcam a predicate that now and then reads its rules again, over and
over, before it answers: whoever asks next waits. The twin's compares what it is given."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import itertools  # noqa: E402
import time  # noqa: E402
from wsgiref.simple_server import WSGIRequestHandler, make_server  # noqa: E402

TURN = 60
turns = itertools.count(1)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def sift(rounds: float) -> int:
    end, kept = time.monotonic() + rounds, 0
    while time.monotonic() < end:
        kept += len([n for n in range(2000) if n % 7])
    return kept


def worth(name: str, seconds: float, failed: bool) -> bool:
    if service.SICK and next(turns) % TURN == 0:
        sift(0.5)
    return failed


def answer(n: int) -> str:
    return str(n)


def asked(n: int) -> str:
    worth("/", 0.0, False)
    return answer(n)


if __name__ == "__main__":
    # What is sick here is a setting of dashcam's own. Without dashcam the program asks by itself.
    try:
        import dashcam
    except ImportError:
        handle = asked
    else:
        dashcam.start(when=worth)
        handle = answer
    make_server("127.0.0.1", service.PORT, service.wsgi(handle), handler_class=Quiet).serve_forever()
