"""Keeps the last lines of what happened, and a copy on the disk."""

from __future__ import annotations

import collections
import os
import time

#: A copy takes no longer than this: what is left of it stays behind.
MOST_S = 0.5


class Chronicle:
    """A journal."""

    def __init__(self, path: str, each: int) -> None:
        self.path = path
        self.each = each
        self.lines = collections.deque((f"line {i}" for i in range(4000)), maxlen=4000)

    def note(self, line: str, copy: bool) -> None:
        """One more line."""
        self.lines.append(line)
        if copy:
            self._copy(list(self.lines))

    def _copy(self, lines: list[str]) -> None:
        end = time.monotonic() + MOST_S
        with open(self.path, "wb", buffering=0) as file:
            for count, line in enumerate(lines, 1):
                file.write(line.encode() + b"\n")
                if self.each and count % self.each == 0:
                    self._settle(file.fileno())
                if time.monotonic() > end:
                    break
        os.unlink(self.path)

    def _settle(self, descriptor: int) -> None:
        os.fsync(descriptor)
