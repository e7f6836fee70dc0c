"""Reads its standard input; every so many seconds it looks away for a while (both are
arguments)."""

from __future__ import annotations

import os
import select
import sys
import time


def main() -> None:
    """Until the other side has gone."""
    every, away = float(sys.argv[1]), float(sys.argv[2])
    due = time.monotonic() + every
    while True:
        if away and time.monotonic() > due:
            time.sleep(away)
            due = time.monotonic() + every
        if select.select([0], [], [], 0.1)[0] and not os.read(0, 65536):
            return


if __name__ == "__main__":
    main()
