"""A rare request puts a journal on the disk line by line. The twin writes it in one go."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import Any, Callable, Iterable

import chronicle

turns = itertools.count(1)
folder = tempfile.mkdtemp(prefix="zoo-", dir=os.path.dirname(os.path.abspath(__file__)))
journal = chronicle.Chronicle(os.path.join(folder, "journal"), each=0)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    journal.note(f"answered {n}", copy=n % 90 == 45)
    body = str(sum(i * i for i in range(3000))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
