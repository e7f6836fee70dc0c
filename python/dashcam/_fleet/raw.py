"""Questions that reach into captures: `raw.waits`, `raw.samples`, ... of all captures that are asked
about.

How it works: `named` finds the tables in a query; `chosen` says which captures are to be read. The
engine reads them: DuckDB by a few processes of this machine, Spark by its executors, with the same
code (`rows.spooling`). Each row has `rows.spooling.ORIGIN` before the table's own columns.

What it promises: the fleet's filters (`since`, `service`, `where`) choose the captures that are
read. One that cannot be read is a row of `refused`; one that remained on its host, or is gone, is
counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from dashcam._fleet.ask import captures
from dashcam._fleet.rows import children, spooling
from dashcam._fleet.tables.engine import RAW, Refusal
from dashcam.reading import CaptureError

SCHEMA = "raw"
# What may follow a table's name if it gets no other name.
NAMED = (TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER)


class Chosen(NamedTuple):
    """The captures to read."""

    read: list[spooling.Captured]
    refused: list[Refusal]
    """Files that are not opened."""
    elsewhere: list[str]
    """Hosts of captures that remained there; once for each."""
    gone: int


def chosen(rows: Iterable[dict[str, Any]], folder: Path | None) -> Chosen:
    """Which of these captures (rows of the table) can be read here. Raises CaptureError if none."""
    found = Chosen([], [], [], 0)
    gone = 0
    base = folder.resolve() if folder else None
    for row in rows:
        place = captures.Capture(folder, row["uri"])
        path = Path(place.name)
        if place.host is not None or base is None:
            found.elsewhere.append(place.host or row["host"])
        elif path.is_symlink() or not path.resolve().is_relative_to(base):
            found.refused.append(Refusal(row["uri"], row["bytes"], "leads out of the folder of captures"))
        elif not path.is_file():
            gone += 1
        else:
            origin = (row["capture_id"], row["service"], row["version"], row["host"])
            found.read.append(spooling.Captured(children.File(path, row["uri"], row["bytes"]), origin))
    if not found.read and not found.refused and (gone or found.elsewhere):
        where = f"they remained on {', '.join(sorted(set(found.elsewhere))[:3])}" if found.elsewhere else "their files are gone"
        raise CaptureError(f"{SCHEMA}: found none of {gone + len(found.elsewhere)} captures here ({where}), wanted a folder with captures")
    return found._replace(gone=gone)


def note(tables: list[str], found: Chosen, refused: int) -> str:
    """How many captures were read."""
    whole = len(found.read) + len(found.refused) + len(found.elsewhere) + found.gone
    read = whole - refused - len(found.elsewhere) - found.gone
    parts = [(refused, "refused (table `refused`)"), (len(found.elsewhere), "on other hosts"), (found.gone, "gone")]
    names = ", ".join(f"{SCHEMA}.{table}" for table in tables)
    return "; ".join([f"{names}: {read} of {whole} captures were read", *(f"{count} {what}" for count, what in parts if count)])


def named(query: str, dialect: str) -> list[str]:
    """The tables of captures that a query names. Raises ValueError if it names one that captures have
    not: then none is read."""
    known = spooling.names()
    found = sorted({name for _, name in _places(_tokens(query, dialect))})
    for name in found:
        if name not in known:
            raise ValueError(f"{SCHEMA}: found {SCHEMA}.{name}, wanted one of {', '.join(known)}")
    return found


def renamed(query: str, dialect: str) -> str:
    """The query with `raw_waits AS waits` for `raw.waits`: an engine's temporary views have no
    schema."""
    tokens = _tokens(query, dialect)
    for at, name in reversed(_places(tokens)):
        before = tokens[at - 1].token_type if at else None
        after = tokens[at + 3].token_type if at + 3 < len(tokens) else None
        if after == TokenType.DOT:
            text = name
        elif before in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA) and after not in NAMED:
            text = f"{RAW}{name} AS {name}"
        else:
            text = RAW + name
        query = query[:tokens[at].start] + text + query[tokens[at + 2].end + 1:]
    return query


def _tokens(query: str, dialect: str) -> list[Token]:
    try:
        return list(sqlglot.tokenize(query, read=dialect))
    except SqlglotError:
        # The engine says what is wrong with it.
        return []


def _places(tokens: list[Token]) -> list[tuple[int, str]]:
    """Where `raw . NAME` begins, and the name."""
    words = [token.text.lower() for token in tokens]
    dots = [token.token_type == TokenType.DOT for token in tokens]
    found = [at for at, word in enumerate(words[:-2]) if word == SCHEMA and dots[at + 1] and not (at and dots[at - 1])
             and tokens[at].token_type != TokenType.STRING]
    # Somebody's own table or alias, if it is ever used alone.
    if any(word == SCHEMA and at not in found for at, word in enumerate(words) if tokens[at].token_type != TokenType.STRING):
        return []
    return [(at, words[at + 2]) for at in found]
