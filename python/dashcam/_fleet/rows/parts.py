"""Where the time of slow requests went: the table `parts`.

How it works: `dashcam why` divides the time of each slow request into intervals (the reader's table
`pieces`). Intervals of a request with the same cause, place, target and culprit become one part. A
part gets the fingerprint of the finding that names its cause and place.

What it promises: the parts of a request add up to its duration. A request has at most `PARTS_MAX`:
the smallest ones are added up to one without a place, cause `rest`. Only the 200 slowest requests of
a capture are divided, as in `why`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
PARTS_MAX = 16
REST = "rest"
KEY = ("cause", "place", "target", "culprit_place")
# `geocache.py:41 backoff()`; native code without debug information has no line.
PLACE = re.compile(r"(?P<file>.*?)(?::\d+)? (?P<function>\S.*)\(\)")


def parts(pieces: Iterable[Row], causes: list[Row]) -> list[Row]:
    """The parts of each slow request, the largest first. `causes` are the capture's findings."""
    found: dict[int, dict[tuple[str | None, ...], Row]] = {}
    for interval in pieces:
        if not interval["is_slow"]:
            continue
        own = found.setdefault(interval["request_id"], {})
        part = own.setdefault(tuple(interval[name] for name in KEY), {"duration_ns": 0, "intervals": 0})
        part["duration_ns"] += interval["duration_ns"]
        part["intervals"] += 1
    fingerprints = _fingerprints(causes)
    rows = []
    for request, own in sorted(found.items()):
        ordered = sorted(own.items(), key=lambda item: (-item[1]["duration_ns"], tuple(map(str, item[0]))))
        listed = [_part(key, part, fingerprints) for key, part in ordered]
        if len(listed) > PARTS_MAX:
            rest = dict.fromkeys(("fingerprint", "place", "target", "culprit")) | {"cause": REST}
            rest |= {name: sum(part[name] for part in listed[PARTS_MAX - 1:]) for name in ("duration_ns", "intervals")}
            listed[PARTS_MAX - 1:] = [rest]
        rows += [{"request_id": request, "number": number} | part for number, part in enumerate(listed, start=1)]
    return rows


def _part(key: tuple[str | None, ...], part: Row, fingerprints: dict[tuple[Any, ...], str]) -> Row:
    cause, place, target, culprit = key
    at, by = _named(place), _named(culprit)
    fingerprint = fingerprints.get((cause, at, by)) or fingerprints.get((cause, at))
    return {"cause": cause, "fingerprint": fingerprint, "place": place, "target": target, "culprit": culprit} | part


def _fingerprints(causes: list[Row]) -> dict[tuple[Any, ...], str]:
    """Fingerprints by cause, place and culprit; by cause and place where only one finding has them."""
    found: dict[tuple[Any, ...], str] = {}
    alone: dict[tuple[Any, ...], list[str]] = {}
    for row in causes:
        at, by = (_of_cause(row, prefix) for prefix in ("", "culprit_"))
        found[row["cause"], at, by] = row["fingerprint"]
        alone.setdefault((row["cause"], at), []).append(row["fingerprint"])
    return found | {key: names[0] for key, names in alone.items() if len(names) == 1}


def _of_cause(row: Row, prefix: str) -> tuple[str, str] | None:
    function = row[f"{prefix}function"]
    return function and ((row[f"{prefix}file"] or "").rpartition("/")[2], function)


def _named(place: str | None) -> tuple[str, str] | None:
    """File and function of a place; the line may be another one of the function."""
    found = PLACE.fullmatch(place or "")
    return found and (found["file"], found["function"])
