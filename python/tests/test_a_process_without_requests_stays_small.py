"""Recording takes memory as records need it: a launcher, or a server's master, needs little.

What is counted: anonymous memory (heaps, stacks, pages of files that were changed), and the box.
Not "private dirty" memory: the kernel counts a page of a library there until it was written to
disk, if one process maps it. 1 to 5 MiB of ours were such pages after an installation. The interpreter is one whose library is
compiled, as installations are (tools/new_pythons): compiling it at each start takes 2 to 4 MiB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MIB = 1 << 20
CODE = """
import time
from pathlib import Path

def anonymous():
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Anonymous:")) * 1024

before = anonymous()
import dashcam
dashcam.start(slow="60s", out=OUT)
end = time.monotonic() + 60
while dashcam.status()["sampler"]["passes"] < 20 and time.monotonic() < end:
    time.sleep(0.05)
status = dashcam.status()
print(anonymous() - before, status["box_present_bytes"], status["box_bytes"], status["sampler"]["passes"])
"""


def test_a_process_without_a_request_takes_less_than_six_mebibytes(tmp_path: Path) -> None:
    code = CODE.replace("OUT", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    anonymous, present, box, passes = map(int, done.stdout.split())
    assert passes >= 20, "the sampler has used its buffers"
    assert box == 64 * MIB
    assert present < 2 * MIB, f"{present} bytes of the box"
    assert anonymous + present < 6 * MIB, f"{anonymous} bytes and {present} of the box"
