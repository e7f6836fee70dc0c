"""A rare request writes much and waits until it is on the disk. The twin writes a little."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import tempfile  # noqa: E402
import time  # noqa: E402

folder = tempfile.mkdtemp(prefix="zoo-", dir=os.path.dirname(os.path.abspath(__file__)))
chunk = os.urandom(8 << 20)


def keep(seconds: float) -> None:
    end = time.monotonic() + seconds
    with open(os.path.join(folder, "log"), "wb") as file:
        while time.monotonic() < end:
            file.seek(0)
            file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    os.unlink(os.path.join(folder, "log"))


def answer(n: int) -> str:
    if n % 90 == 45 and service.SICK:
        keep(0.5)
    return str(service.honest_work(n))

if __name__ == "__main__":
    import atexit
    import shutil

    atexit.register(shutil.rmtree, folder, True)
    service.plain(answer)
