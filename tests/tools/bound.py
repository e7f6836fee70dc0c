"""Processes that end with the one that started them, also if that one is killed.

How it works: the kernel sends SIGKILL to a process whose starter's thread has ended
(`PR_SET_PDEATHSIG`); exec keeps that. What it promises: no process of a test outlives the test. Its
own children are its own matter.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

PR_SET_PDEATHSIG = 1
# Loaded before the fork: the child must not load a library.
LIBC = ctypes.CDLL(None, use_errno=True)


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """As `subprocess.Popen`, from a thread that lives as long as the process may."""
    starter = os.getpid()

    def bind() -> None:
        if LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != starter:
            # The starter has ended meanwhile.
            os._exit(1)

    return subprocess.Popen(words, preexec_fn=bind, **options)
