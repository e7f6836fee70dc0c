"""The answers as text. Names come from captures of others: characters that would move the cursor
are escaped.

How it works: each function makes the text of one answer from its rows; nothing is calculated here.
"""

from __future__ import annotations

import datetime
import shlex
from typing import Any

from dashcam.sql import cell

Row = dict[str, Any]
# Names listed in a line.
NAMES_MAX = 3
HOW = "An incident is ten minutes of one host with the cause. "
UNSEEN = ("Hosts without any capture are not seen, where requests were not counted; when a host changed is estimated from its "
          "captures.\n")
SEEN = "Hosts without a capture are those that counted requests.\n"
BARS = "▁▂▃▄▅▆▇█"
# Buckets in a line of `trend`; the newest ones.
BUCKETS_MAX = 60
KINDS = {"worse": "worse", "new": "new", "unsure": "new, perhaps by chance", "local": "new, on few hosts only", "moved": "moved",
         "better": "better", "gone": "gone"}
NOTHING = "Nothing can be said of requests that are in no capture: there is no count of all requests.\n"


def why(totals: Row, by: tuple[str, ...], groups: list[Row], more: int) -> str:
    """`dashcam fleet why`."""
    out = _head(totals)
    if totals["excess_ns"] <= 0:
        return out + ("No request was slow.\n" if totals["counted"] else "No captured request was slow.\n")
    for row in groups:
        out += _cause(row) if by == ("service", "fingerprint") else _group(row, by)
    if more:
        out += f"{more} more: --top {len(groups) + more}.\n"
    out += f"Unexplained: {_percent(totals['unexplained_share'])} of the excess.\n"
    return out + (_not_captured(totals) if totals["counted"] else NOTHING)


def head(totals: Row, more: int) -> str:
    """What a page says above its causes."""
    out = _head(totals)
    if totals["excess_ns"] > 0:
        out += f"Unexplained: {_percent(totals['unexplained_share'])} of the excess.\n"
        out += _not_captured(totals) if totals["counted"] else NOTHING
    return out + (f"{more} more causes: --top.\n" if more else "")


def news(new: list[Row], worse: list[Row], is_first: bool, causes: int) -> str:
    """`dashcam fleet why --alert`."""
    out = "".join(f"new: {_cause(row).split('. ', 1)[1]}" for row in new)
    for row in worse:
        out += f"worse: {_named(row)}  {row['fingerprint']}\n"
        out += "".join(f"   {_ratio(part)}\n" for part in row["comparisons"])
        out += f"   {cell(row['request'])}: {cell(row['summary'])}\n"
    if is_first:
        out += f"The first time: {_count(causes, 'cause')} remembered; from now on what is new or worse is reported.\n"
    return out or f"Nothing new, nothing worse; {_count(causes, 'cause')}.\n"


def trend(by: str, causes: list[Row]) -> str:
    """`dashcam fleet trend`."""
    if not causes:
        return "No captured request was slow.\n"
    steps = causes[0]["buckets"][-BUCKETS_MAX:]
    form = "%Y-%m-%d" if by == "day" else "%Y-%m-%d %H:%M"
    out = f"Excess of the captured slow requests by {by}, {steps[0]['from_utc']:{form}} to {steps[-1]['from_utc']:{form}} UTC; "
    out += "· is without a capture of the service.\n"
    for cause in causes:
        line = [bucket["excess_ns"] for bucket in cause["buckets"][-BUCKETS_MAX:]]
        top = max((value for value in line if value is not None), default=0.0)
        bars = "".join("·" if v is None else " " if v <= 0 else BARS[min(7, int(v / top * 7.999))] for v in line)
        out += f"{bars}  {amount(cause['excess_ns']):>8}  {_named(cause)}  {cause['fingerprint']}\n"
    return out


def show(cause: Row) -> str:
    """`dashcam fleet show`."""
    out = f"{_named(cause)}  {cause['fingerprint']}\n"
    out += f"   {cell(cause['worst']['summary'])}.\n   {cell(cause['advice'])}\n"
    out += f"   {amount(cause['excess_ns'])} of excess in {_count(cause['captures'], 'capture')} of {_count(cause['hosts'], 'host')}; "
    out += f"confirmed in {cause['confirmed']}.\n"
    out += _tail(cause)
    out += f"   first {_time(cause['first_utc'])}, last {_time(cause['last_utc'])}\n"
    out += f"   requests: {_names(cause['requests'], 'request')}\n   hosts: {_names(cause['hosts_named'], 'host')}\n"
    out += f"   versions: {_versions(cause)}\n"
    for one in cause["listed"]:
        version = f", version {cell(one['version'])}" if one["version"] else ""
        out += f"   {_time(one['captured_utc'])}  {cell(one['host'])}{version}: {amount(one['excess_ns'])}, {one['confidence']}\n"
        out += f"      {_command(one)}\n"
    if cause["more"]:
        out += f"   {cause['more']} more captures: --json lists the first {len(cause['listed'])}; `dashcam fleet sql` has all\n"
    return out


def services_of_both(sides: Row) -> set[str]:
    """The services with captures or counts on both sides of a `diff`."""
    return set(sides["before"]["services"]) & set(sides["after"]["services"])


def diff(sides: Row, compared: list[Row], differences: list[Row]) -> str:
    """`dashcam fleet diff`."""
    out = "".join(f"{name}: {cell(sides[name]['name'])}: {_side(sides[name])}\n" for name in ("before", "after"))
    for name, other in (("before", "after"), ("after", "before")):
        alone = sorted(set(sides[name]["services"]) - set(sides[other]["services"]))
        if alone:
            out += f"Only {name} has captures or counts of {', '.join(cell(service) for service in alone)}: not compared.\n"
    if not services_of_both(sides):
        return out + "Nothing to compare: a side without captures and counts may be healthy, or not recorded.\n"
    out += "".join(_comparison(row) for row in compared)
    how = HOW + (SEEN if all(sides[name]["requests"] for name in sides) else UNSEEN)
    if not differences:
        return out + "No difference that is sure, large enough and on several hosts.\n" + how
    for row in differences:
        out += f"{KINDS[row['kind']]}: {_named(row)}  {row['fingerprint']}\n"
        out += "".join(f"   {_ratio(part)}\n" for part in row["comparisons"])
        out += f"   {cell(row['request'])}: {cell(row['summary'])}\n"
        if row.get("moved_from"):
            out += f"   was {row['moved_from']}, which vanished: the same cause and request, at a like rate\n"
    return out + how


def watched(at: datetime.datetime, sides: Row, differences: list[Row], nearest: Row | None) -> str:
    """A line of `dashcam fleet diff --watch`."""
    seen = "; ".join(f"{name} {_side(sides[name])}" for name in ("before", "after"))
    if any(row["kind"] in ("worse", "new") for row in differences):
        return f"{_time(at)}: {seen}\n"
    if not services_of_both(sides):
        return f"{_time(at)}: {seen}; nothing to compare yet\n"
    if not nearest:
        return f"{_time(at)}: {seen}; nothing judged yet\n"
    return (f"{_time(at)}: {seen}; no sure regression, nearest {_named(nearest)}: chance {nearest['p_anytime'] * 100:.2g} %, "
            f"wanted {nearest['p_wanted'] * 100:.2g} %\n")


def _side(side: Row) -> str:
    """What is known of one side."""
    hosts = _count(side["hosts"], "host")
    counted = f"{_count(side['requests'], 'request')} counted" if side["requests"] else None
    if not side["captures"]:
        return f"no capture; {counted} on {hosts}" if counted else "no capture, no counts of requests"
    return f"{_count(side['captures'], 'capture')}{f' and {counted}' if counted else ''} of {hosts}, {_count(side['causes'], 'cause')}"


def amount(ns: float) -> str:
    """An amount of time for people."""
    for size, unit in ((3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e6:.2g} ms" if ns else "0 ms"


def _head(totals: Row) -> str:
    out = f"{_count(totals['services'], 'service')}, {_count(totals['hosts'], 'host')}, {_count(totals['versions'], 'version')}; "
    out += _count(totals["captures"], "capture")
    if totals["from_utc"]:
        out += f", {_time(totals['from_utc'])} to {_time(totals['to_utc'])}"
    out += ".\n"
    if totals["refused"]:
        out += f"{_count(totals['refused'], 'file')} could not be read: `dashcam fleet sql SRC \"from refused\"`.\n"
    if totals["damaged"]:
        out += f"{_count(totals['damaged'], 'capture')} of them damaged: what is left was judged.\n"
    if len(totals["rules_versions"]) > 1:
        out += f"Judged by different versions ({', '.join(map(cell, totals['rules_versions']))}): `dashcam fleet index SRC --again` judges all by this one.\n"
    if not totals["counted"]:
        return out + (f"{_count(totals['slow_requests'], 'captured slow request')} with {amount(totals['excess_ns'])} of excess "
                      "(time beyond typical).\n")
    total, slow = (sum(row[name] for row in totals["counts"]) for name in ("total", "slow"))
    out += f"{_count(total, 'request')}, {slow:,} over their limits ({_rate(slow / total * 1e6 if total else 0.0)}), "
    out += f"with {amount(totals['excess_ns'])} of excess (time beyond typical).\n"
    out += f"{_count(totals['slow_requests'], 'slow request')} with {amount(totals['captured_excess_ns'])} were captured; "
    return out + "all excess is divided among causes as in these.\n"


def _not_captured(totals: Row) -> str:
    share = totals["not_captured_ns"] / totals["excess_ns"]
    slow, open_ = (sum(row[name] for row in totals["counts"]) for name in ("not_captured_slow", "open"))
    out = f"Not captured: {_percent(share)} of the excess, {_count(slow, 'slow request')} of a name and hour without a capture.\n"
    if open_:
        its = "its" if open_ == 1 else "their"
        out += f"{'1 process' if open_ == 1 else f'{open_:,} processes'} still at work or killed: {its} last counts are missing.\n"
    if totals["uncounted"]:
        out += f"Requests of {', '.join(map(cell, totals['uncounted']))} were not counted: only the captured ones are included.\n"
    return out


def _rate(per_million: float) -> str:
    return f"{per_million:,.3g} in a million" if per_million < 1000 else f"{per_million:,.0f} in a million"


def _cause(row: Row) -> str:
    interval = f" [{row['share_95'][0] * 100:.0f}-{row['share_95'][1] * 100:.0f}]" if row["share_95"] else ""
    out = f"{row['rank']}. {_named(row)}: {row['share'] * 100:.0f} %{interval} of the excess ({amount(row['excess_ns'])})  {row['fingerprint']}\n"
    rate = f"{_rate(row['slow_per_million'])}; " if row["slow_per_million"] is not None else ""
    out += f"   {_names(row['requests'], 'request')}; {rate}{row['hosts']} of {_count(row['hosts_of_service'], 'host')}; {_versions(row)}\n"
    out += _tail(row)
    out += f"   since {_time(row['first_utc'])}, last {_time(row['last_utc'])}; confirmed in {row['confirmed']} of {_count(row['captures'], 'capture')}\n"
    out += f"   {cell(row['worst']['summary'])}\n"
    return out + f"   worst: {_command(row['worst'])}\n"


def _tail(row: Row) -> str:
    """p99.9 with and without the cause."""
    if row["p999_ns"] is None:
        return ""
    return f"   p99.9 of {cell(row['service'])}: {amount(row['p999_ns'])}, {amount(row['p999_without_ns'])} without this cause\n"


def _group(row: Row, by: tuple[str, ...]) -> str:
    interval = f" [{row['share_95'][0] * 100:.0f}-{row['share_95'][1] * 100:.0f}]" if row["share_95"] else ""
    name = ", ".join(cell(row[column]) for column in by)
    out = f"{row['rank']}. {name}: {row['share'] * 100:.0f} %{interval} of the excess ({amount(row['excess_ns'])}); "
    out += f"{_count(row['causes'], 'cause')}, {_count(row['captures'], 'capture')}, {_count(row['hosts'], 'host')}\n"
    return out + f"   worst: {cell(row['worst']['summary'])}\n          {_command(row['worst'])}\n"


def _named(row: Row) -> str:
    """Service, cause, place."""
    culprit = row["culprit_function"]
    at = f"  {place(row['place_file'], row['place_function'])}" if row["place_function"] else ""
    to_blame = f" < {place(row['culprit_file'], culprit)}" if culprit and culprit != row["place_function"] else ""
    return f"{cell(row['service'])}  {cell(row['cause'])}{at}{to_blame}"


def place(file: str | None, function: str) -> str:
    """`app.py refresh()`."""
    base = f"{cell((file or '').rsplit('/', 1)[-1])} " if file else ""
    return f"{base}{cell(function)}()"


def _versions(row: Row) -> str:
    named = [one for one in row["versions"] if one["version"]]
    if not named:
        return "version not known (no label `version`)"
    text = f"version {_names(named, 'version')}"
    without = [one for one in row["versions_without"] if one["version"]]
    if without and len(named) == len(row["versions"]):
        others = ", ".join(f"{cell(one['version'])} ({_seen(one)})" for one in without[:NAMES_MAX])
        text = f"only {text}; not in {others}"
    return text


def _seen(version: Row) -> str:
    return _count(version["captures"], "capture") if version["requests"] is None else _count(version["requests"], "request")


def _names(rows: list[Row], column: str) -> str:
    text = ", ".join(cell(row[column]) for row in rows[:NAMES_MAX])
    return text + (f" and {len(rows) - NAMES_MAX} more" if len(rows) > NAMES_MAX else "")


def _command(worst: Row) -> str:
    if worst["on_host"] is not None:
        name = worst["path"][len(worst["on_host"]) + 1:]
        return f"dashcam why {cell(shlex.quote(name))} (on {cell(worst['on_host'])})"
    if not worst["is_there"]:
        return f"{cell(worst['path'])} (no longer there)"
    return f"dashcam why {cell(shlex.quote(worst['path']))}"


def _comparison(row: Row) -> str:
    before, after = row["before"], row["after"]
    hours = "" if row["how"] == "same hours" else f" from {_time(before['from_utc'])} to {_time(before['to_utc'])}"
    return (f"{cell(row['service'])}, {row['how']}: {_count(before['hosts'], 'host')}{hours}, {_count(after['hosts'], 'host')} "
            f"from {_time(after['from_utc'])} to {_time(after['to_utc'])}\n")


def _ratio(part: Row) -> str:
    times = "appeared" if part["ratio"] is None else f"{part['ratio']:.3g} times the incidents of a host"
    parts = [f"{name} {side['incidents']} on {side['hosts']} of {_count(side['of_hosts'], 'host')}"
             for name, side in (("before", part["before"]), ("after", part["after"]))]
    chance = min(part["p_worse"], part["p_better"])
    return f"{part['how']}: {times}; {', '.join(parts)}; by chance in {chance * 100:.2g} % of permutations"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _time(when: datetime.datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC" if when else "at an unknown time"
