"""Instructions for each request, by callgrind: those that the serving thread executes, Python and
native, without dashcam's threads and without the kernel. The difference of two runs divided by the
difference in requests; it does not vary with the machine. It does vary with the places of objects in
memory, by up to 10,000 (malloc's lists), so the run is made with several hash seeds; the medians
count. `python bench/python/counted.py [case ...]` prints a table: absent, off, on.

The compared code must be built with optimisation (`make setup`)."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

FEW, MANY = 100, 600
SEEDS = ("1", "2", "3")
CASES = ("wsgi bare", "wsgi flask", "wsgi price", "asgi httptools bare", "asgi h11 bare", "asgi httptools fastapi",
         "asgi httptools price")


def switch(state: str) -> None:
    """Switches callgrind's counting around this process on or off."""
    subprocess.run(["callgrind_control", "-i", state, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def settle() -> None:
    """A full collection of what is there already would count to one of the variants only."""
    gc.collect()
    gc.freeze()


def run_wsgi(app: str, times: int) -> None:
    """The loop of wsgi.py."""
    import wsgi

    with wsgi.calls(wsgi.APPS[app]()) as some:
        some(100)
        settle()
        switch("on")
        some(times)
        switch("off")


async def run_asgi(implementation: str, app: str, times: int) -> None:
    """The loop of asgi.py."""
    import asgi

    async with asgi.calls(asgi.APPS[app](), implementation) as some:
        await some(100)
        settle()
        switch("on")
        await some(times)
        switch("off")


def child(variant: str, times: int, kind: str, *how: str) -> None:
    """Serves; instructions are counted."""
    sys.path.insert(0, str(Path(__file__).parent))
    if variant != "absent":
        import dashcam

        dashcam.start(slow="60s", memory="8MiB")
        if variant == "off":
            dashcam.stop()
    if kind == "wsgi":
        run_wsgi(*how, times)
    else:
        asyncio.run(run_asgi(*how, times))


def collected(variant: str, case: str, times: int, seed: str) -> int:
    """Instructions of the first thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
                   f"--callgrind-out-file={folder}/out", sys.executable, __file__, variant, str(times), *case.split()]
        env = {**os.environ, "DASHCAM_OUT": folder, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        files = sorted(Path(folder).glob("out*-01"))
        if done.returncode or not files:
            raise SystemExit(done.stderr[-2000:])
        found = re.findall(r"^(?:summary|totals): (\d+)", files[-1].read_text(), re.M)
        return max(int(number) for number in found)


def table(cases: list[str], count: Callable[[str, str, int, str], int] = collected) -> None:
    """A row for each case."""
    variants = ("absent", "off", "on")

    def each(variant: str, case: str, seed: str) -> float:
        return (count(variant, case, MANY, seed) - count(variant, case, FEW, seed)) / (MANY - FEW)

    print(f"{'instructions a request':28}" + "".join(f"{v:>10}" for v in variants) + f"{'added':>10}")
    for case in cases:
        rows = [[each(v, case, seed) for v in variants] for seed in SEEDS]
        per = [statistics.median(row[at] for row in rows) for at in range(len(variants))]
        added = statistics.median(row[2] - row[0] for row in rows)
        print(f"{case:28}" + "".join(f"{n:10,.0f}" for n in [*per, added]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("absent", "off", "on"):
        child(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
    elif not shutil.which("callgrind_control"):
        print("SKIPPED: instructions a request (no valgrind: install it from Debian)")
    else:
        table(sys.argv[1:] or list(CASES))
