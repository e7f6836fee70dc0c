"""`dashcam fleet`: the command.

How it works: one parser for the verbs; each verb opens a `Fleet`, asks, and prints text or JSON.

What it promises: data on stdout, the rest on stderr. Exit codes as everywhere: 0 fine; 1 no cause
was found, or `diff` or `--alert` found something worse; 2 usage; 3 a source that cannot be read, or
a command of `--alert` that failed.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from dashcam import sql
from dashcam.reading import CaptureError

FINE, FOUND, USAGE, UNREADABLE = 0, 1, 2, 3
EPILOG = ("SRC: a folder of captures, or of the tables that `index` or `dashcam ship` write, also in an object store (s3://bucket/fleet). "
          "docs/guide/fleet.md explains the answers.")


def main(words: list[str]) -> int:
    """Answers one question. Arguments: those of `dashcam fleet`."""
    try:
        given = parser().parse_args(words)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return int(given.verb(given))
    except ImportError as error:
        return _missing(error)
    except CaptureError as error:
        sql.say(f"fleet: {error}")
        return UNREADABLE
    except BrokenPipeError:
        # Nor may the interpreter's end print more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (ValueError, LookupError) as error:
        sql.say(f"fleet: {error.args[0] if error.args else error}")
        return USAGE
    except OSError as error:
        sql.say(f"fleet: {error}")
        return UNREADABLE
    except KeyboardInterrupt:
        return 130


def process(words: list[str]) -> int:
    """As `main`, in a process that does nothing else. At its end the libraries are not taken apart:
    that takes as long as to import them. What was registered for its end runs before."""
    codes: list[int] = []
    # What is registered first runs last.
    atexit.register(_end, codes)
    codes.append(main(words))
    return codes[0]


def _end(codes: list[int]) -> None:
    """Ends the process with the exit code, if there is one."""
    for stream in (sys.stdout, sys.stderr):
        try:
            # There is none if the process began with a closed one.
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            pass
        except (OSError, ValueError):
            # The interpreter reports it.
            return
    if codes:
        os._exit(codes[0])


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    whole = argparse.ArgumentParser(prog="dashcam fleet", description="One question over the captures of many hosts.",
                                    epilog=EPILOG, allow_abbrev=False)
    verbs = whole.add_subparsers(metavar="VERB", required=True)
    why = _verb(verbs, "why", _why, "the causes that cost the most")
    why.add_argument("--by", metavar="COLUMN", help="group by service, version, environment, region, host, request or cause")
    why.add_argument("--top", type=_count, default=20, metavar="N", help="how many [20]")
    why.add_argument("--alert", metavar="CMD", help="run this if something is new or worse than the last time, with it on stdin; exit code 1 then")
    why.add_argument("--state", type=Path, metavar="FILE", help="what --alert remembers [one of SRC in ~/.local/state/dashcam]")
    why.add_argument("--window", default="24h", metavar="TIME", help="--alert: worse than in the same time before [24h]")
    trend = _verb(verbs, "trend", _trend, "what each cause cost in each day or hour")
    trend.add_argument("fingerprint", nargs="?", metavar="FINGERPRINT", help="one cause only; its beginning is enough")
    trend.add_argument("--by", choices=("day", "hour"), default="day")
    trend.add_argument("--top", type=_count, default=10, metavar="N", help="how many [10]")
    diff = _verb(verbs, "diff", _diff, "what became worse between two versions, or at a time")
    diff.add_argument("--before", action="append", type=_pair, default=[], metavar="version=V1", help="one side; also environment, region, host")
    diff.add_argument("--after", action="append", type=_pair, default=[], metavar="version=V2", help="the other side")
    diff.add_argument("--at", metavar="TIME", help="instead of both: the time around this instant (UTC)")
    diff.add_argument("--window", default="24h", metavar="TIME", help="how long before and after it [24h]")
    diff.add_argument("--watch", action="store_true", help="ask again while a release rolls out, until something is worse or new; exit code 1 then")
    diff.add_argument("--every", default="60s", metavar="TIME", help="--watch: how often [60s]")
    diff.add_argument("--for", dest="length", metavar="TIME", help="--watch: end with 0 if nothing was found for so long [no end]")
    show = _verb(verbs, "show", _show, "all that is known of one cause")
    show.add_argument("fingerprint", metavar="FINGERPRINT", help="its beginning is enough")
    view = _verb(verbs, "view", _view, "write the answer as a page of HTML, with charts")
    view.add_argument("-o", "--out", type=Path, default=Path("fleet.html"), metavar="FILE", help="where to write it [fleet.html]")
    view.add_argument("--top", type=_count, default=100, metavar="N", help="how many causes [100]")
    query = _verb(verbs, "sql", _sql, "a query over captures, findings, requests, parts, rollups, refused; and raw.waits, ...: the tables of all captures")
    query.add_argument("query", metavar="QUERY")
    query.add_argument("--csv", action="store_true", help="print CSV, with a header")
    index = verbs.add_parser("index", help="judge new captures and write tables of Parquet", allow_abbrev=False)
    index.add_argument("source", metavar="SRC", type=Path)
    index.add_argument("--out", type=Path, metavar="DIR", help="where to write [SRC/fleet-tables]")
    index.add_argument("--again", action="store_true", help="also captures that are in the tables, by the rules of this version")
    index.add_argument("--json", action="store_true", help="print JSON")
    _judging(index)
    index.set_defaults(verb=_index)
    compact = verbs.add_parser("compact", help="merge small files of the tables", allow_abbrev=False)
    compact.set_defaults(verb=_compact)
    expire = verbs.add_parser("expire", help="remove old days from the tables", allow_abbrev=False)
    expire.add_argument("--before", required=True, metavar="TIME", help="days before this time: 90d, 2026-11-21 (UTC)")
    expire.add_argument("--captures", action="store_true", help="also remove the captures of these days")
    expire.set_defaults(verb=_expire)
    for one in (compact, expire):
        one.add_argument("source", metavar="SRC", type=Path, help="tables, or a folder of captures with tables in it")
        one.add_argument("--json", action="store_true", help="print JSON")
    return whole


def _verb(verbs: Any, name: str, run: Any, about: str) -> argparse.ArgumentParser:
    one: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about.capitalize() + ".", epilog=EPILOG, allow_abbrev=False)
    one.add_argument("source", metavar="SRC")
    one.add_argument("--since", metavar="TIME", help="only captures since then: 7d, 24h, 2026-11-21 (UTC)")
    one.add_argument("--until", metavar="TIME", help="only captures before then")
    one.add_argument("--service", metavar="NAME", help="only captures of this service")
    one.add_argument("--where", metavar="SQL", help="only captures that fulfil this: \"version = '4.2' and region = 'eu'\"")
    one.add_argument("--engine", default="duckdb", metavar="NAME",
                     help="what answers: duckdb, local-spark, spark://HOST:PORT, sc://HOST:PORT, spark (as spark-defaults.conf says) [duckdb]")
    one.add_argument("--json", action="store_true", help="print JSON")
    _judging(one)
    one.set_defaults(verb=run)
    return one


def _judging(one: argparse.ArgumentParser) -> None:
    one.add_argument("--jobs", type=_count, metavar="N", help="processes that judge captures [one a CPU, at most 4]")
    one.add_argument("--native-names", action="store_true", help="name native code from the binaries of this machine (slower)")
    one.add_argument("--max-bytes", type=_bytes, metavar="SIZE", help="largest file that is judged [64MiB]")


def _fleet(given: argparse.Namespace) -> Any:
    fleet = _opened(given)
    atexit.register(fleet.close)
    for note in fleet.notes:
        sql.say(f"fleet: {note}")
    return fleet


def _opened(given: argparse.Namespace) -> Any:
    # What is loaded lives until the end: to look for garbage in it takes as long as a question.
    gc.disable()
    try:
        from dashcam._fleet.fleet import Fleet

        if given.engine == "duckdb":
            from dashcam._fleet.tables import duck  # noqa: F401
        gc.freeze()
        # The libraries report what is not freed.
        atexit.register(gc.unfreeze)
    finally:
        gc.enable()
    return Fleet(given.source, since=given.since, until=given.until, service=given.service, where=given.where,
                 engine=given.engine, **_options(given))


def _options(given: argparse.Namespace) -> dict[str, Any]:
    from dashcam._fleet.rows.children import Limits

    limits = Limits() if given.max_bytes is None else Limits(bytes_max=given.max_bytes)
    return {"jobs": given.jobs, "native_names": given.native_names, "limits": limits, "report": _report}


def _why(given: argparse.Namespace) -> int:
    if given.alert is not None:
        return _alert(given)
    answer = _fleet(given).why(by=given.by, top=given.top)
    _print(answer, given.json)
    return FINE if answer.groups else FOUND


def _alert(given: argparse.Namespace) -> int:
    from dashcam._fleet.ask import alerting

    if given.by:
        raise ValueError(f"--alert: found --by {given.by} beside it, wanted causes: one or the other")
    fleet = _fleet(given)
    state = alerting.State(given.state or alerting.default_path(os.path.abspath(given.source) if "://" not in given.source else given.source))
    with state.alone():
        state.read()
        causes, worse = fleet.why(top=alerting.CAUSES_MAX).causes, fleet.worse(given.window)
        news = state.news(causes, worse, fleet.now)
        _print(news, given.json)
        if news:
            text = json.dumps(news.json(), ensure_ascii=False) + "\n" if given.json else news.text
            wrong = alerting.run(given.alert, text)
            if wrong is not None:
                sql.say(f"fleet: --alert: {given.alert!r} {wrong}; it is run again the next time")
                return UNREADABLE
        state.remember(causes, worse, fleet.now)
    return FOUND if news else FINE


def _trend(given: argparse.Namespace) -> int:
    answer = _fleet(given).trend(given.fingerprint, by=given.by, top=given.top)
    _print(answer, given.json)
    return FINE if answer.causes else FOUND


def _diff(given: argparse.Namespace) -> int:
    if given.watch:
        from dashcam._fleet import watching

        rollout = watching.rollout(dict(given.before), dict(given.after), given.at, given.every, given.length)
        outcome = watching.watch(lambda: _opened(given), rollout, as_json=given.json, out=sys.stdout)
        if outcome is watching.Outcome.UNCOMPARED:
            sql.say(f"fleet: --watch: nothing was compared in {given.length}: found no service with captures or counts on both "
                     "sides, wanted one; are the versions right?")
        return {watching.Outcome.FOUND: FOUND, watching.Outcome.FINE: FINE, watching.Outcome.UNCOMPARED: UNREADABLE}[outcome]
    if given.at is None:
        for name, side in (("before", given.before), ("after", given.after)):
            if not side:
                raise ValueError(f"diff: found no --{name}, wanted --before and --after, as `--before version=4.1 --after version=4.2`, "
                                 "or --at 2026-11-21T10:00")
    answer = _fleet(given).diff(dict(given.before), dict(given.after), at=given.at, window=given.window)
    _print(answer, given.json)
    if not answer.is_compared:
        return UNREADABLE
    return FOUND if answer.found("worse", "new") else FINE


def _show(given: argparse.Namespace) -> int:
    _print(_fleet(given).show(given.fingerprint), given.json)
    return FINE


def _view(given: argparse.Namespace) -> int:
    text = _fleet(given).view(given.top)
    given.out.write_text(text, "utf-8")
    print(json.dumps({"schema": 1, "out": str(given.out)}) if given.json else f"{given.out}: {len(text) / 1000:,.0f} kB")
    return FINE


def _sql(given: argparse.Namespace) -> int:
    form = "json" if given.json else "csv" if given.csv else "table"
    fleet = _fleet(given)
    known = len(fleet.notes)
    answer = fleet.sql(given.query)
    for note in fleet.notes[known:]:
        sql.say(f"fleet: {note}")
    sql.show(answer, form, sys.stdout)
    sys.stdout.flush()
    return FINE


def _index(given: argparse.Namespace) -> int:
    from dashcam._fleet.tables import indexing

    out = given.out or given.source / indexing.INSIDE
    counts = indexing.index(given.source, out, again=given.again, **_options(given))
    if given.json:
        print(json.dumps({"schema": 1, "out": str(out), **counts._asdict()}))
    else:
        print(f"{counts.files} files: {counts.known} known, {counts.judged} judged, {counts.refused} refused; "
              f"{counts.written} files of Parquet written to {out}")
    return FINE


def _compact(given: argparse.Namespace) -> int:
    from dashcam._fleet.tables import keeping

    done = keeping.compact(_tables(given.source))
    _report_done(given, done, f"{done.folders} folders: {done.merged} files merged, {done.written} written")
    return FINE


def _expire(given: argparse.Namespace) -> int:
    import datetime

    from dashcam._fleet import fleet
    from dashcam._fleet.tables import keeping

    tables = _tables(given.source)
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    before = fleet.time(given.before, now, "before")
    assert before is not None
    captures = tables.parent if tables != given.source or tables.name == "fleet-tables" else tables
    done = keeping.expire(tables, captures, before.date(), remove_captures=given.captures)
    kept = f"; {done.kept} kept, since their captures are still there (--captures removes them)" if done.kept else ""
    _report_done(given, done, f"{done.folders} folders and {done.captures} captures removed{kept}")
    return FINE


def _tables(source: Path) -> Path:
    """The tables in SRC. Raises CaptureError."""
    from dashcam._fleet.tables import indexing, store

    for folder in (source, source / indexing.INSIDE):
        if store.is_index(folder):
            return folder
    raise CaptureError(f"{source}: found no tables of a fleet, wanted those that `dashcam fleet index` writes")


def _report_done(given: argparse.Namespace, done: Any, text: str) -> None:
    print(json.dumps({"schema": 1, **done._asdict()}) if given.json else text)


def _print(answer: Any, as_json: bool) -> None:
    text = json.dumps(answer.json(), ensure_ascii=False, indent=1) + "\n" if as_json else answer.text
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(done: int, of: int) -> None:
    if done < of:
        sql.say(f"judged {done} of {of} captures")


def _missing(error: ImportError) -> int:
    extra = "spark" if (error.name or "").partition(".")[0] in ("pyspark", "py4j", "grpc") else "fleet"
    sql.say(f"fleet: {error} (by {sys.executable}); wanted: {sys.executable} -m pip install 'dashcam[{extra}]'")
    return USAGE


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted 1 or more")
    return number


def _bytes(text: str) -> int:
    units = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
    size, unit = text.strip().upper(), 1
    for name, factor in units.items():
        if size.endswith(name):
            size, unit = size[:-len(name)].strip(), factor
    if not size.isdigit() or int(size) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted a size like 64MiB")
    return int(size) * unit


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted COLUMN=VALUE, like version=4.2")
    return name.strip(), value.strip()
