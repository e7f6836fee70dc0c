"""`diff`: what became worse, or better, between two versions or two spans of time.

How it works: the unit is the incident, ten minutes of one host with a cause, since slow requests
come in bursts. `comparing` says which hosts are compared in which hours; a permutation of hosts says
how probable a ratio is by chance; all causes together keep the false discovery rate.

What it promises: a cause is reported as worse only if every comparison that is possible says so:
the hosts that changed against themselves before, and against hosts of the other side in the same
hours. Chance must be improbable, the effect large enough to matter, and on several hosts. A new
cause on few hosts is listed apart. A cause that vanished and another that appeared with the same
word, service, request and rate are one cause that moved (a renamed file); it is worse only if both
together are.

*Anytime*: the same, of a release that rolls out, asked again and again. What is known is judged at
fixed lengths of the rollout, each half as long again as the one before; between them the answer stays
as it is. All these judgements share the chance that is allowed (`statistics.part_of_judgement`).

What it cannot know: a host without a capture is seen only if it counted its requests; else, when it
changed is estimated from the times of its captures.
"""

# Ibis and pyarrow have no types; what pyright infers from their source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import datetime
import math
from typing import Any, NamedTuple

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from dashcam._fleet.ask import answers, comparing, questions, statistics, wording

# A ratio below this is not reported, however sure it is.
RATIO_MIN = 1.5
# Nor is a cause with a smaller part of the excess, on the side where it is larger.
SHARE_MIN = 0.01
# A cause on fewer hosts is a matter of these hosts.
HOSTS_MIN = 3
# Rates of a vanished and an appeared cause within this ratio may be one that moved.
MOVED_RATIO_MAX = 2.0
# Kinds, in the order of the answer; what is the same is left out.
KINDS = ("worse", "new", "unsure", "local", "moved", "better", "gone")
Row = dict[str, Any]


class Diff(NamedTuple):
    """Differences between two sides, and what was compared."""

    sides: dict[str, Row]
    compared: list[Row]
    differences: list[Row]
    nearest: Row | None = None
    """With `anytime`: the cause that is most surely worse; `p_anytime` is the chance of it, and
    `p_wanted` what is wanted. None: none was judged."""

    def found(self, *kinds: str) -> list[Row]:
        """The differences of these kinds: worse, new, better, gone; moved (a cause with another name,
        `moved_from` is the former fingerprint), local (a new cause on one or two hosts), unsure (a new
        cause on too few hosts to exclude chance)."""
        return [row for row in self.differences if row["kind"] in kinds]

    @property
    def is_compared(self) -> bool:
        """Whether a service has captures or counts on both sides. If none has, no difference means nothing."""
        return bool(wording.services_of_both(self.sides))

    def json(self) -> Row:
        """As `dashcam fleet diff --json` prints it."""
        return answers.whole({"schema": 1, "of": answers.CAPTURED, **self._asdict()})

    @property
    def text(self) -> str:
        """As `dashcam fleet diff` prints it."""
        return wording.diff(self.sides, self.compared, self.differences)


class Side(NamedTuple):
    """One side: what it is called, what is of it, its hosts that counted requests, its span if that
    is given."""

    name: str
    all_: questions.Asked
    observed: ir.Table
    span: comparing.Span | None = None


def by_label(all_: questions.Asked, before: dict[str, str], after: dict[str, str], *, anytime: bool = False) -> Diff:
    """Compares captures with these values of labels."""
    sides = []
    for chosen in (before, after):
        captures = all_.captures
        for column, value in chosen.items():
            captures = captures.filter(captures[column] == value)
        name = ", ".join(f"{column} {value}" for column, value in chosen.items())
        sides.append(Side(name, questions.of_captures(all_, captures), questions.observed(all_, chosen, questions.Span())))
    return _compared(all_, *sides, anytime=anytime)


def by_time(all_: questions.Asked, at: datetime.datetime, window: datetime.timedelta) -> Diff:
    """Compares the time before an instant with the time after it. Every host that was seen counts
    on both sides."""
    sides = []
    for span in (comparing.Span(at - window, at), comparing.Span(at, at + window)):
        name = f"{span.begin:%Y-%m-%d %H:%M} to {span.end:%Y-%m-%d %H:%M} UTC"
        within = questions.Span(*span)
        sides.append(Side(name, questions.within(all_, within), questions.observed(all_, {}, within), span))
    return _compared(all_, *sides)


class _Seen(NamedTuple):
    """What was seen of one side: hosts and incidents by service; requests that were counted."""

    hosts: dict[str, dict[str, Row]]
    incidents: dict[str, pa.Table]
    requests: int | None


def _compared(all_: questions.Asked, before: Side, after: Side, *, anytime: bool = False) -> Diff:
    seen = {"before": _seen(before), "after": _seen(after)}
    names = {(row["service"], row["fingerprint"]): row for row in questions.rows(questions.worst(all_, questions.CAUSE))}
    tested: list[Row] = []
    compared: list[Row] = []
    services: dict[str, _Service] = {}
    for service in sorted(set(seen["before"].hosts) & set(seen["after"].hosts)):
        both = Sides(*(seen[name].hosts[service] for name in ("before", "after")), *(seen[name].incidents[service] for name in ("before", "after")))
        number = 0
        if anytime:
            number, both = until_judged(both)
            if not number:
                continue
        chosen = comparing.chosen(both.hosts_before, both.hosts_after, before.span, after.span)
        compared += [{"service": service, "judgement": number or None} | comparison.described() for comparison in chosen]
        services[service] = _Service(chosen, both, number)
        tested += of_service(service, *services[service])
    for row in tested:
        found = names[(row["service"], row["fingerprint"])]
        row |= answers.of_cause(found) | {"request": found["request"], "summary": found["summary"]}
    judge(tested)
    tested = _joined(tested, services)
    differences = [row for row in tested if row["kind"] in KINDS]
    differences.sort(key=lambda row: (KINDS.index(row["kind"]), -row["share"], row["service"], row["fingerprint"]))
    sides = {name: _side(side.name, seen[name]) for name, side in (("before", before), ("after", after))}
    return Diff(sides, compared, differences, _nearest(tested) if anytime else None)


def _nearest(tested: list[Row]) -> Row | None:
    found = min(tested, key=lambda row: (row["p_anytime"], row["service"], row["fingerprint"]), default=None)
    # Of the first discovery among all causes.
    return found and found | {"p_wanted": statistics.FALSE_DISCOVERIES / len(tested)}


class Sides(NamedTuple):
    """Both sides of a service: its hosts, with when they were seen, and its incidents."""

    hosts_before: dict[str, Row]
    hosts_after: dict[str, Row]
    before: pa.Table
    after: pa.Table


class _Service(NamedTuple):
    """What is compared of a service."""

    comparisons: list[comparing.Comparison]
    both: Sides
    judgement: int


def until_judged(both: Sides) -> tuple[int, Sides]:
    """What was known when the rollout was last judged, and the number of that judgement; 0: not yet. The
    rollout begins with the first sign of the after side; what has arrived says how long it has run."""
    import pyarrow.compute as pc

    begin = min(row["first_utc"] for row in both.hosts_after.values())
    end = max(row["last_utc"] for hosts in (both.hosts_before, both.hosts_after) for row in hosts.values())
    number = statistics.judgements((end - begin).total_seconds())
    if not number:
        return 0, both
    until = begin + datetime.timedelta(seconds=statistics.judgement_s(number))
    interval = int((until - datetime.datetime(1970, 1, 1)).total_seconds() // questions.INCIDENT_SECONDS)
    hosts = [{host: row | {"last_utc": min(row["last_utc"], until)} for host, row in hosts.items() if row["first_utc"] < until}
             for hosts in (both.hosts_before, both.hosts_after)]
    tables = [table.filter(pc.less(table["interval"], interval)) for table in (both.before, both.after)]
    return (number, Sides(*hosts, *tables)) if all(hosts) else (0, both)


def _seen(side: Side) -> _Seen:
    import pyarrow.compute as pc

    hosts: dict[str, dict[str, Row]] = {}
    for row in questions.rows(questions.totals(questions.per_host(side.all_))):
        hosts.setdefault(row["service"], {})[row["host"]] = {name: row[name] for name in ("captures", "first_utc", "last_utc")}
    counted = questions.rows(side.observed)
    for row in counted:
        own = hosts.setdefault(row["service"], {}).setdefault(row["host"], row | {"captures": 0})
        own |= {"requests": row["requests"], "first_utc": min(own["first_utc"], row["first_utc"]), "last_utc": max(own["last_utc"], row["last_utc"])}
    found = questions.incidents(side.all_).to_pyarrow()
    incidents = {service: found.filter(pc.equal(found["service"], service)) for service in hosts}
    return _Seen(hosts, incidents, sum(row["requests"] for row in counted) if counted else None)


def _side(name: str, seen: _Seen) -> Row:
    import pyarrow.compute as pc

    services = seen.hosts.values()
    return {
        "name": name, "services": sorted(seen.hosts), "hosts": len({host for hosts in services for host in hosts}),
        "captures": sum(row["captures"] for hosts in services for row in hosts.values()), "requests": seen.requests,
        "causes": sum(pc.count_distinct(table["fingerprint"]).as_py() for table in seen.incidents.values()),
    }


def of_service(service: str, comparisons: list[comparing.Comparison], both: Sides, judgement: int = 0) -> list[Row]:
    """A row for each cause of a service, with each comparison. `judgement`: its number, of a
    question that is asked again and again."""
    found: dict[str, Row] = {}
    sides = [both.before, both.after]
    causes = sorted({cause for side in sides for cause in side["fingerprint"].to_pylist()})
    if not causes:
        return []
    for comparison in comparisons:
        counts, excess_ns = comparison.counted(causes, sides)
        after = np.array([unit.is_after for unit in comparison.units])
        total_ns = {name: float(excess_ns[chosen].sum()) for name, chosen in (("before", ~after), ("after", after))}
        for column, (cause, difference) in enumerate(zip(causes, statistics.compare(comparison.units, counts, service, finely=judgement > 0))):
            row = found.setdefault(cause, {"service": service, "fingerprint": cause, "judgement": judgement or None, "comparisons": []})
            parts: Row = {"how": comparison.how, "ratio": difference.ratio, "p_worse": difference.p_worse, "p_better": difference.p_better}
            for name, chosen in (("before", ~after), ("after", after)):
                own_ns = float(excess_ns[chosen, column].sum())
                parts[name] = {"incidents": int(counts[chosen, column].sum()), "hosts": int((counts[chosen, column] > 0).sum()),
                               "of_hosts": int(chosen.sum()), "excess_ns": own_ns,
                               "share": own_ns / total_ns[name] if total_ns[name] > 0 else 0.0}
            row["comparisons"].append(parts)
    return list(found.values())


def judge(rows: list[Row]) -> None:
    """Gives each row its kind: what all of its comparisons agree on."""
    for row in rows:
        parts = row["comparisons"]
        row["p_worse"], row["p_better"] = (max(part[name] for part in parts) for name in ("p_worse", "p_better"))
        # What a judgement may contribute to chance is less than the whole.
        share_of_it = statistics.part_of_judgement(row["judgement"]) if row["judgement"] else 1.0
        row["p_anytime"] = min(1.0, row["p_worse"] / share_of_it) if row["judgement"] else None
        row["share"] = max(part[side]["share"] for part in parts for side in ("before", "after"))
    surely_worse = statistics.discoveries([row["p_worse"] if row["p_anytime"] is None else row["p_anytime"] for row in rows])
    surely_better = statistics.discoveries([row["p_better"] for row in rows])
    for row, is_worse, is_better in zip(rows, surely_worse, surely_better):
        row["kind"] = _kind(row, is_worse, is_better) if row["share"] >= SHARE_MIN else "same"
        for part in row["comparisons"]:
            part["ratio"] = None if part["ratio"] == math.inf else part["ratio"]


def _kind(row: Row, is_worse: bool, is_better: bool) -> str:
    parts = row["comparisons"]
    ratios = [math.inf if part["ratio"] is None else part["ratio"] for part in parts]
    hosts = {side: min(part[side]["hosts"] for part in parts) for side in ("before", "after")}
    is_new, is_gone = _is_without(row, "before"), _is_without(row, "after")
    if is_worse and min(ratios) >= RATIO_MIN and hosts["after"] >= HOSTS_MIN:
        return "new" if is_new else "worse"
    if is_better and max(ratios) <= 1 / RATIO_MIN and hosts["before"] >= HOSTS_MIN:
        return "gone" if is_gone else "better"
    if is_new and not is_gone:
        return "local" if hosts["after"] < HOSTS_MIN else "unsure"
    return "same"


def _is_without(row: Row, side: str) -> bool:
    """Whether a side has no incident of the cause."""
    return not any(part[side]["incidents"] for part in row["comparisons"])


def _joined(rows: list[Row], services: dict[str, _Service]) -> list[Row]:
    """The rows, with one for both names of each cause that moved, judged anew."""
    pairs = _moved(rows)
    if not pairs:
        return rows
    joined = [new | {"comparisons": _as_one(old, new, services[new["service"]]), "moved_from": old["fingerprint"]} for old, new in pairs]
    apart = {(row["service"], row["fingerprint"]) for pair in pairs for row in pair}
    found = [row for row in rows if (row["service"], row["fingerprint"]) not in apart] + joined
    judge(found)
    for row in joined:
        if row["kind"] == "same":
            row["kind"] = "moved"
    return found


def _moved(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Causes that vanished, each with the one that appeared instead; of each pair one is surely so."""
    gone = [row for row in rows if _is_without(row, "after") and not _is_without(row, "before")]
    new = [row for row in rows if _is_without(row, "before") and not _is_without(row, "after")]
    likeness = {(i, k): like for i, old in enumerate(gone) for k, one in enumerate(new) if (like := _likeness(old, one)) is not None}
    found: dict[int, int] = {}
    for i, k in sorted(likeness, key=lambda pair: (likeness[pair], gone[pair[0]]["fingerprint"], new[pair[1]]["fingerprint"])):
        if i not in found and k not in found.values():
            found[i] = k
    return [(gone[i], new[k]) for i, k in sorted(found.items())]


def _likeness(old: Row, new: Row) -> tuple[int, float] | None:
    """How much a cause is like one that vanished, the less the more; None: it is another one."""
    if old["kind"] != "gone" and new["kind"] != "new":
        return None
    rates = _rate(old, "before"), _rate(new, "after")
    if any(old[name] != new[name] for name in ("service", "cause", "request")) or 0 in rates:
        return None
    ratio = abs(math.log(rates[1] / rates[0]))
    if ratio > math.log(MOVED_RATIO_MAX):
        return None
    return sum(old[name] != new[name] for name in ("place_function", "place_file", "target")), ratio


def _as_one(old: Row, new: Row, service: _Service) -> list[Row]:
    """The comparisons of two causes as one."""
    import pyarrow.compute as pc

    def named(incidents: pa.Table) -> pa.Table:
        names = incidents["fingerprint"]
        is_one = pc.is_in(names, value_set=pa.array([old["fingerprint"], new["fingerprint"]], names.type))
        # All others are one, too: what they have in common with these is the whole.
        one = pc.if_else(is_one, pa.scalar("one", names.type), pa.scalar("others", names.type))
        return incidents.set_column(incidents.column_names.index("fingerprint"), "fingerprint", one)

    both = service.both._replace(before=named(service.both.before), after=named(service.both.after))
    [comparisons] = [row["comparisons"] for row in of_service(new["service"], service.comparisons, both, service.judgement)
                     if row["fingerprint"] == "one"]
    return list(comparisons)


def _rate(row: Row, side: str) -> float:
    """Incidents of a host, in the first comparison."""
    part = row["comparisons"][0][side]
    return float(part["incidents"] / part["of_hosts"])
