"""Stops a process (argument 1; 0: its whole group, argument 2) for 600 ms every 2.6 s."""

from __future__ import annotations

import os
import select
import signal
import sys
import time


def main() -> None:
    """Until the program that started this has gone."""
    pid, group = int(sys.argv[1]), int(sys.argv[2])
    while not select.select([0], [], [], 2.0)[0]:
        for sign, seconds in ((signal.SIGSTOP, 0.6), (signal.SIGCONT, 0.0)):
            if pid:
                os.kill(pid, sign)
            else:
                os.killpg(group, sign)
            time.sleep(seconds)


if __name__ == "__main__":
    main()
