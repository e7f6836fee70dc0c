"""A pause three calls down in a package of its own. The twin gives the package no slack."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable

import mooring

turns = itertools.count(1)


def berth(n: int) -> str:
    return mooring.moor(f"ship-{n % 13}", n, slack=0.0)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = berth(next(turns)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
