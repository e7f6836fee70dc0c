"""A form is checked against a pattern that tries every way on rare input. The twin's has one
way."""

from __future__ import annotations

import itertools
import re
from typing import Any, Callable, Iterable

turns = itertools.count(1)
SHAPE = re.compile(r"^[\w\s]*$")


def plausible(text: str) -> bool:
    return SHAPE.match(text) is not None


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    n = next(turns)
    text = "abcdefghijklmnopqrstuvw!" if n % 80 == 40 else "plain words here"
    body = f"{sum(i * i for i in range(3000))} {plausible(text)}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
