"""Folders for what a process writes on its way, also on executors of Spark.

How it works: a folder has a file that is locked as long as its process lives. A process that makes
a folder removes those whose file is not locked.

What it promises: the folder is removed by `close`, or at the end of the process; one of a process
that was killed, by the next one. Folders of other users and other programs are left alone.

What is missing on purpose: file systems without locks. There folders of killed processes remain.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "dashcam-fleet-"
# The locked file of a folder.
IN_USE = "in-use"


class Folder(contextlib.AbstractContextManager["Folder"]):
    """A folder; `path` is where it is."""

    def __init__(self) -> None:
        remove_left()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.path = Path(self._folder.name)
        unlocked = self.path / f"{IN_USE}.new"
        self._lock = open(unlocked, "wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # It gets its name when it is locked: another process never finds it free before.
        unlocked.rename(self.path / IN_USE)

    def close(self) -> None:
        """Removes the folder."""
        self._folder.cleanup()
        self._lock.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


def remove_left() -> None:
    """Removes folders of processes of this user that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            with open(path / IN_USE, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
