"""Another process halts the whole group, master and worker. In the twin nothing does."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import beside  # noqa: E402

turns = itertools.count(1)
beside.spawn("usher.py", 0, os.getpgrp(), start_new_session=True)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    body = str(sum(i * i for i in range(3000 + n % 5))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
