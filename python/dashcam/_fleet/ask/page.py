"""The page of a fleet: the answer of `why` with what its charts need, as one HTML file.

How it works: the engine sums findings up to *cells*, a cause on a host of a version in an hour; the
most expensive `CELLS_MAX` go into the page, whose script (viewer/src/fleet) makes trends and maps of
them. `page.html` beside this package is built from there.

What it promises: the page's size is bounded, however large the fleet is. Names come from captures of
others: the data is JSON in which no tag can end, and the page's policy allows its own script only.
"""

from __future__ import annotations

import html
import json
import shlex
from pathlib import Path
from typing import Any

from dashcam._fleet.ask import answers, captures, questions, wording
from dashcam.sql import cell

TEMPLATE = Path(__file__).resolve().parents[1] / "page.html"
# About 30 bytes each.
CELLS_MAX = 10_000
HOUR_SECONDS = 3600
NAMES_MAX = 3
Row = dict[str, Any]


def page(data: Row) -> str:
    """The page with this data."""
    parts = {"title": html.escape(data["title"]), "text": html.escape(data["text"]), "data": in_script(data)}
    whole = TEMPLATE.read_text("utf-8")
    for name, part in parts.items():
        whole = whole.replace(f"<!--dashcam:{name}-->", part, 1)
    return whole


def in_script(data: Row) -> str:
    """JSON that ends no element and begins no comment."""
    text = json.dumps(answers.plain(data), ensure_ascii=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def data(all_: questions.Asked, title: str, top: int, folder: Path | None, most: int = CELLS_MAX) -> Row:
    """What the page shows."""
    why = answers.why(all_, questions.CAUSE, top, folder)
    place = {(row["service"], row["fingerprint"]): at for at, row in enumerate(why.causes)}
    found = [row for row in questions.rows(questions.cells(all_, most)) if (row["service"], row["fingerprint"]) in place]
    versions = [{"service": service, **{name: one[name] for name in ("version", "requests", "captures")}}
                for service, listed in sorted(answers.versions_seen(all_).items()) for one in listed]
    of_version = {(one["service"], one["version"]): at for at, one in enumerate(versions)}
    hosts = sorted({row["host"] for row in found})
    of_host = {name: at for at, name in enumerate(hosts)}
    paths = sorted({captures.Capture(folder, row["uri"]).path for row in found} | {row["worst"]["path"] for row in why.causes})
    of_path = {name: at for at, name in enumerate(paths)}
    hours = [row["hour"] for row in found] or [0]
    shown = [0.0] * len(why.causes)
    for row in found:
        shown[place[row["service"], row["fingerprint"]]] += row["excess_ns"]
    return {
        "title": title, "text": wording.head(why.totals, why.more), "from_hour": min(hours), "hours": max(hours) - min(hours) + 1,
        "causes": [_cause(row, max(0.0, row["excess_ns"] - seen), of_path) for row, seen in zip(why.causes, shown)],
        "versions": versions, "hosts": [cell(name) for name in hosts],
        "captures": [cell(shlex.quote(path)) for path in paths],
        "cells": {
            "cause": [place[row["service"], row["fingerprint"]] for row in found], "host": [of_host[row["host"]] for row in found],
            "version": [of_version[row["service"], row["version"]] for row in found], "hour": [row["hour"] for row in found],
            "excess_ns": [round(row["excess_ns"]) for row in found], "worst": [of_path[captures.Capture(folder, row["uri"]).path] for row in found],
        },
    }


def _cause(row: Row, rest_ns: float, of_path: dict[str, int]) -> Row:
    same = ("service", "fingerprint", "cause", "excess_ns", "share", "share_95", "slow_per_million", "hosts", "hosts_of_service",
            "captures", "confirmed", "first_utc", "last_utc")
    place = wording.place(row["place_file"], row["place_function"]) if row["place_function"] else ""
    culprit = wording.place(row["culprit_file"], row["culprit_function"]) if row["culprit_function"] else ""
    return {name: row[name] for name in same} | {
        "place": place, "culprit": culprit, "summary": cell(row["worst"]["summary"]), "advice": cell(row["worst"]["advice"]),
        "requests": [cell(one["request"]) for one in row["requests"][:NAMES_MAX]],
        "worst": of_path[row["worst"]["path"]],
        # Less than a millisecond is rounding.
        "rest_ns": rest_ns if rest_ns > 1e6 else 0.0,
    }
