"""tests/tools/bound.py: a process whose starter is killed ends, also after an exec."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import unittest
from pathlib import Path

# Starts a shell that becomes another program, which holds the pipe's end; then both wait.
STARTER = """\
import os, sys
sys.path.insert(0, {tools!r})
import bound
child = bound.start(["sh", "-c", "echo ready; exec sleep 600"], start_new_session=True)
print(child.pid, flush=True)
child.wait()"""
LATE_S = 60


class TestBound(unittest.TestCase):
    def test_what_a_killed_process_started_ends(self) -> None:
        code = STARTER.format(tools=str(Path(__file__).resolve().parent))
        read, write = os.pipe()
        with subprocess.Popen([sys.executable, "-c", code], stdout=write) as starter, os.fdopen(read, "rb", buffering=0) as out:
            os.close(write)
            said = b""
            while said.count(b"\n") < 2:
                said += out.read(100)
            pid = int(next(word for word in said.split() if word != b"ready"))
            os.kill(starter.pid, signal.SIGKILL)
            # The last end of the pipe closes when the started process has ended.
            ready, _, _ = select.select([out], [], [], LATE_S)
            if not ready:
                os.kill(pid, signal.SIGKILL)
            self.assertTrue(ready, "the process that it started lives on")
            self.assertEqual(out.read(1), b"")


if __name__ == "__main__":
    unittest.main()
