"""tests/tools/bound.py: a process whose starter is killed ends, also after an exec."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import unittest
from pathlib import Path

# Starts a shell that becomes another program, which holds the pipe's end; then both wait. The shell
# alone writes: lines of two writers may be mixed.
STARTER = """\
import sys
sys.path.insert(0, {tools!r})
import bound
bound.start(["sh", "-c", "echo $$; exec sleep 600"], start_new_session=True).wait()"""
LATE_S = 60


class TestBound(unittest.TestCase):
    def test_what_a_killed_process_started_ends(self) -> None:
        code = STARTER.format(tools=str(Path(__file__).resolve().parent))
        read, write = os.pipe()
        with os.fdopen(read, "rb") as out:
            starter = subprocess.Popen([sys.executable, "-c", code], stdout=write)
            os.close(write)
            try:
                pid = int(out.readline())
            finally:
                starter.kill()
                starter.wait()
            # The last end of the pipe closes when the started process has ended.
            ready, _, _ = select.select([out], [], [], LATE_S)
            if not ready:
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(ready, "the process that it started lives on")
            self.assertEqual(out.read(1), b"")


if __name__ == "__main__":
    unittest.main()
