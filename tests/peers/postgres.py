"""A PostgreSQL server for a suite that needs one: fresh, on a free port of loopback, and gone when
the suite ends.

How it works: Debian's `postgresql` or any PostgreSQL on PATH. `initdb` makes a cluster under
build/peers, without fsync, and the server listens on a port that the kernel chose. PostgreSQL
refuses to run as root, so for root all of it runs as nobody.

What it promises: no cluster of the machine's is used or changed. Each side of a suite finds the
same server; dashcam never records it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Iterator

from environment import BUILD, Failed, Skipped

_NOBODY = 65534
_START_SECONDS = 120


@contextlib.contextmanager
def server() -> "Iterator[dict[str, str]]":
    """Runs a server; gives host, port, user and the name of an empty database. Raises Failed or
    Skipped."""
    binaries = _binaries()
    home = BUILD / "postgres"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(home, _NOBODY, _NOBODY)
    _run([str(binaries / "initdb"), "-D", "data", "-U", "dashcam", "-A", "trust", "--no-sync"], home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-p {port} -h 127.0.0.1 -k '' -c fsync=off -c max_prepared_transactions=10"
    control = [str(binaries / "pg_ctl"), "-D", "data", "-w", "-t", str(_START_SECONDS)]
    _run([*control, "-l", "log", "-o", options, "start"], home)
    try:
        yield {"host": "127.0.0.1", "port": str(port), "user": "dashcam", "database": "postgres"}
    finally:
        _run([*control, "-m", "immediate", "stop"], home)


def _binaries() -> Path:
    """The folder of PostgreSQL's programs; Debian has it outside of PATH. Raises Skipped."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        raise Skipped("found no initdb on PATH or in /usr/lib/postgresql; wanted PostgreSQL: apt-get install postgresql")
    return folders[-1]


def _run(words: "list[str]", home: Path) -> None:
    drop = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    # Output to a file: the server keeps what it inherits.
    with open(home / "output", "ab") as output:
        ended = subprocess.run(words, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **drop)
    if ended.returncode != 0:
        raise Failed(f"{words[0]}: exit {ended.returncode}; see {home / 'output'} and {home / 'log'}")
