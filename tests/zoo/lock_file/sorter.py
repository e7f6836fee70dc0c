"""Sorts the tray (argument 1) every two seconds, which takes as long as argument 2 says, in seconds."""

import fcntl
import sys
import threading
import time


def sort() -> None:
    with open(sys.argv[1], "a+") as tray:
        fcntl.flock(tray, fcntl.LOCK_EX)
        time.sleep(float(sys.argv[2]))
        tray.truncate(0)


def sorter() -> None:
    while True:
        time.sleep(2)
        sort()


threading.Thread(target=sorter, daemon=True).start()
sys.stdin.read()
