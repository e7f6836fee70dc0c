"""The process that judges captures for `children`: reads requests on stdin, writes answers on
stdout.

How it works: a request is a line of JSON. An answer is a line of JSON with the lengths of the
Arrow streams that follow it, or with `refused`. A request with `spool` is for a capture's own tables
(`spooling`): their rows go to files, and the answer says how many. Before the first request the process limits its own
address space, so that a hostile file ends this process and no other.

What it promises: nothing else is written to stdout. It ends when stdin does.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from dashcam._fleet.rows import judging, spooling


# The first answer: the process has loaded what it needs.
READY: dict[str, object] = {"ready": True}


def main() -> int:
    """Answers requests until stdin ends."""
    out = os.fdopen(os.dup(1), "wb")
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # No file of rows is larger, either.
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What a library prints must not appear among the answers, nor on the user's terminal.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _answer(out, READY)
    for line in sys.stdin:
        request = json.loads(line)
        if "spool" in request:
            _answer(out, spooling.answer(request))
            continue
        try:
            tables = judging.rows(Path(request["path"]), request["uri"], native_names=request["native_names"],
                                  bytes_max=request["bytes_max"])
            parts = {name: _stream(table) for name, table in tables.items()}
        except judging.Refused as refused:
            _answer(out, {"refused": str(refused)})
        except MemoryError:
            _answer(out, {"refused": f"its rows need more memory than {memory >> 20} MiB"})
        else:
            _answer(out, {"tables": {name: len(part) for name, part in parts.items()}}, *parts.values())
    return 0


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def _answer(out: BinaryIO, head: dict[str, object], *parts: bytes) -> None:
    out.write(json.dumps(head).encode() + b"\n")
    out.writelines(parts)
    out.flush()
