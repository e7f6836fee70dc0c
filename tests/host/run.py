"""CPython's own tests in a process that dashcam records: what the interpreter promises must still hold.

Threads, forks, signals, tracing, frames, generators, imports, subinterpreters and servers, in one process
under `dashcam run`. Modules that fail are run again without dashcam and, if they pass there, once more
with it: a failure of ours is one that came twice and never without. An interpreter without its tests (Debian's) is SKIPPED. About six minutes.

    python tests/host/run.py [MODULE...]    tests the interpreter it runs on, with the dashcam beside it

DASHCAM_SHOW=1 prints what the tests print."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

BIN = Path(sys.executable).parent
MODULES = """test_threading test_thread test_threadsignals test_threading_local test_fork1 test_subprocess
    test_signal test_faulthandler test_sys_settrace test_sys_setprofile test_frame test_exceptions
    test_traceback test_generators test_coroutines test_asyncgen test_yield_from test_context test_contextlib
    test_gc test_weakref test_finalization test_queue test_socketserver test_httpservers test_wsgiref
    test_selectors test_logging test_import test_capi test_inspect test_atexit test_tracemalloc test_pty
    test_os test_posix test_mmap test_resource test_bdb test_code test_dis test_runpy test_unittest""".split()


def failed(modules: list[str], recorded: bool, folder: Path) -> set[str]:
    """Runs the modules in one process: those that failed. All of them if it did not come to an end."""
    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    words = ["-m", "test", "-q", "--timeout", "600", "--junit-xml", str(results), *modules]
    start = [str(BIN / "dashcam"), "run", "--slow", "1s", "--out", str(folder / "captures"), "--"]
    command = [*start, *words] if recorded else [sys.executable, *words]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if os.environ.get("DASHCAM_SHOW"):
        print(ended.stdout)
    if not results.exists():
        print("\n".join(ended.stdout.splitlines()[-40:]))
        return set(modules)
    found = set()
    for case in xml.parse(results).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            name = case.get("name", "")
            found |= {m for m in modules if f"{m}." in name or f"({m}" in name or name.startswith(m)}
    if ended.returncode not in (0, 2):
        # It ended by something else than failed tests: a crash, or one of the modules as a whole.
        print("\n".join(ended.stdout.splitlines()[-20:]))
        found = found or set(modules)
    return found


def main() -> int:
    modules = sys.argv[1:] or MODULES
    version = ".".join(map(str, sys.version_info[:3]))
    have = subprocess.run([sys.executable, "-c", "import test.test_threading"], capture_output=True)
    if have.returncode != 0:
        print(f"host: SKIPPED: CPython {version} has no tests of its own here")
        return 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bad = failed(modules, True, folder)
        if bad:
            print(f"host: failed with dashcam, now without: {' '.join(sorted(bad))}", flush=True)
            alone = {m for m in bad if failed([m], False, folder)}
            if alone:
                print(f"host: not ours, fail without dashcam, too: {' '.join(sorted(alone))}")
            bad = {m for m in bad - alone if failed([m], True, folder)}
    for module in sorted(bad):
        print(f"host: FAILED twice with dashcam, never without: {module}")
    print(f"host: CPython {version}: {len(modules)} modules, {len(bad)} hurt by dashcam")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
