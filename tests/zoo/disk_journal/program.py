"""Three calls away in a library, a rare request puts a journal on the disk line by line. The twin writes it in one go."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import chronicle  # noqa: E402

import tempfile  # noqa: E402

folder = tempfile.mkdtemp(prefix="zoo-", dir=os.path.dirname(os.path.abspath(__file__)))
journal = chronicle.Chronicle(os.path.join(folder, "journal"), each=1 if service.SICK else 0)


def answer(n: int) -> str:
    journal.note(f"answered {n}", copy=n % 90 == 45)
    return str(service.honest_work(n))


if __name__ == "__main__":
    import atexit
    import shutil

    atexit.register(shutil.rmtree, folder, True)
    service.flask(answer)
