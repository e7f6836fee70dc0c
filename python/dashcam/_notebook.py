"""How notebooks show captures and causes: tables, in Markdown and in HTML.

How it works: one function for each thing makes rows of texts, two others write rows in a format.
Names come from the recorded program, so everything is escaped. Imported when a notebook asks.
"""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dashcam.shapes import Cause, Place, RequestsOfName, Summary

# Columns; numbers are aligned to the right.
CAUSES = ("#", "cause", "share", "confidence", "where", "summary")
REQUESTS = ("request", "count", "median ms", "worst ms")
_NUMBERS = {"#", "share", "count", "median ms", "worst ms"}
# Names of requests are unbounded; a page is not.
_MOST_ROWS = 50


def causes(found: Iterable[Cause]) -> list[tuple[str, ...]]:
    """A row for each cause."""
    return [
        (str(cause["rank"]), cause["cause"], f"{cause['share']:.0%}", cause["confidence"],
         _place(cause["where"]), cause["summary"])
        for cause in found
    ]


def requests(names: Sequence[RequestsOfName]) -> list[tuple[str, ...]]:
    """A row for each name of requests, the slowest first; at most 50."""
    slowest = sorted(names, key=lambda of: -(of["worst_ms"] or 0))[:_MOST_ROWS]
    rows: list[tuple[str, ...]] = [
        (of["name"], f"{of['count']:,}", f"{of['median_ms']:,.2f}", f"{of['worst_ms'] or 0:,.2f}")
        for of in slowest
    ]
    left = len(names) - len(slowest)
    return [*rows, (f"and {left} other names", "", "", "")] if left else rows


def head(path: Path, summary: Summary) -> str:
    """File, process, reason, time covered, damage."""
    meta = summary["meta"]
    covered_s = (meta.get("to_ns", 0) - meta.get("from_ns", 0)) / 1e9
    parts = [
        path.name, f"{meta.get('service', '?')}, process {meta.get('pid', '?')}", f"{covered_s:.1f} s",
        str(meta.get("reason", "")), *summary["damage"],
    ]
    return "; ".join(part for part in parts if part)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    rule = ["--:" if column in _NUMBERS else "---" for column in columns]
    cells = [columns, rule, *([plain_markdown(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def html(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of HTML."""
    side = {column: "right" if column in _NUMBERS else "left" for column in columns}

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (f'<{tag} style="text-align: {side[column]}">{escape(cell)}</{tag}>'
                for column, cell in zip(columns, cells))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>"


def plain_markdown(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]|#~$" else c for c in escape(text, quote=False))
    return " ".join(escaped.split())


def _place(place: Place | None) -> str:
    if place is None:
        return ""
    return f"{place['function']}() {place['file'].rsplit('/', 1)[-1]}:{place['line']}"
