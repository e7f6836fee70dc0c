"""How long `dashcam why` takes for a full box of 64 MiB and of 1 GiB, and how much memory.

Each box is filled by a service of 24 threads: requests of three spans and eight events that take
turns at a lock, and about every 20,000 times a request that holds the lock while it sleeps, so that
many requests wait for it (a convoy costs a diagnosis most). A capture is saved when the whole box
was written once; then `dashcam why --json` reads it, twice: the second time its file is surely in
memory. "peak" is the kernel's `ru_maxrss`.

    python bench/python/diagnosed.py [--quick]      (--quick: 64 MiB only)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
MIB = 1 << 20
THREADS = 24
EVERY = 20011
BYTES_A_REQUEST = 300  # at least


def serve(out: str, mib: int) -> None:
    """The recorded process: prints the capture's path."""
    import dashcam

    dashcam.start(service="full", out=out, memory=f"{mib}MiB", slow="100ms", per_day=1, at_exit="never",
                  keep_bytes="8GiB")
    lock, stop = threading.Lock(), threading.Event()

    def convoy(count: int) -> None:
        with lock:
            if count % EVERY == 0:
                time.sleep(0.15)

    def work() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            with dashcam.request("checkout"):
                with dashcam.span("price"):
                    for index in range(4):
                        dashcam.event("price.row", row=index)
                with dashcam.span("reserve"):
                    convoy(count)
                with dashcam.span("answer"):
                    for index in range(4):
                        dashcam.event("answer.row", row=index)

    running = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    while dashcam.status()["requests"] < mib * MIB / BYTES_A_REQUEST and running[0].is_alive():
        time.sleep(0.5)
    path = dashcam.snap("full")
    stop.set()
    for thread in running:
        thread.join()
    dashcam.stop()
    print(path, flush=True)


def why(path: str) -> tuple[float, int, dict]:
    """Seconds, peak memory in bytes, verdict."""
    tool = str(Path(sys.executable).with_name("dashcam"))
    begin = time.perf_counter()
    with subprocess.Popen([tool, "why", "--json", path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        said = process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.perf_counter() - begin, used.ru_maxrss * 1024, json.loads(said)


def main() -> None:
    """Prints the table."""
    print("dashcam why, of a full box:")
    print(f"{'box':>10}{'capture':>12}{'requests':>11}{'slow':>8}{'seconds':>10}{'again':>8}{'peak MiB':>10}  first finding")
    for mib in (64,) if "--quick" in sys.argv else (64, 1024):
        out = tempfile.mkdtemp(prefix="dashcam-bench-")
        done = subprocess.run([sys.executable, str(HERE), "--child", out, str(mib)], stdout=subprocess.PIPE, text=True,
                              check=True)
        path = done.stdout.strip()
        first, _, _ = why(path)
        again, peak, verdict = why(path)
        finding = (verdict["causes"] or [{"cause": "none", "share": 0}])[0]
        print(f"{mib:>6} MiB{os.path.getsize(path) / MIB:>8.0f} MiB{verdict['requests']['total']:>11}"
              f"{verdict['requests']['slow']:>8}{first:>10.2f}{again:>8.2f}{peak / MIB:>10.0f}"
              f"  {finding['cause']} {finding['share']:.0%}", flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        main()
