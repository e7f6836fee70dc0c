"""Figures -> tables, with the first of each row. Ratios first: machines differ."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Callable

import counters
from programs import Program

Metric = Callable[["dict[str, Any]"], "float | None"]

# A smaller difference is a draw: a part of the best, or a part of a cycle.
DRAW_PART, DRAW_NS = 0.03, 0.3
SPAWNERS = (1, 8, 64)


@dataclass
class Row:
    """One recorder in one table. `values`: one for each round, in step with the rounds of all
    others.
    """

    name: str
    title: str
    values: "list[float | None]"
    counted: bool
    note: str = ""

    @property
    def known(self) -> "list[float]":
        """The values there are."""
        return [v for v in self.values if v is not None]

    @property
    def middle(self) -> float:
        """Median of the rounds."""
        return median(self.known)

    @property
    def spread(self) -> float:
        """Half the way from the lower to the upper quartile, as a part of the median."""
        known = sorted(self.known)
        quarter = len(known) // 4
        width = known[-1 - quarter] - known[quarter]
        return width / 2 / abs(self.middle) if self.middle else 0.0


def less(figures: "dict[str, Any]", name: str, base: str) -> "float | None":
    """One figure beyond another."""
    if name not in figures:
        return None
    return float(figures[name]) - float(figures[base])


def off(figures: "dict[str, Any]", name: str) -> "float | None":
    """Ns over the empty loop; a loop that was faster than the empty loop counts as equal to it."""
    found = less(figures, name, "empty_off")
    return None if found is None else max(found, 0.0)


def scaling(figures: "dict[str, Any]") -> "float | None":
    """Throughput of two threads beside one; by thread and CPU if the program reports it."""
    if "event_2_threads" not in figures:
        return None
    if "scaling" in figures:
        return float(figures["scaling"])
    return 2.0 * float(figures["event_1_thread"]) / float(figures["event_2_threads"])


class Way:
    """The rounds of one way of measuring."""

    def __init__(self, name: str, found: "dict[str, Any]", everything: "list[Program]") -> None:
        self.name = name
        self.results: "dict[str, list[Any]]" = found["results"]
        self.programs = [p for p in everything if name in p.ways and p.name in self.results]

    def rows(self, metric: Metric, without: "tuple[str, ...]" = ()) -> "list[Row]":
        """A row for each program with this figure."""
        rows = []
        for program in self.programs:
            values = [metric(f) if f is not None else None for f in self.results[program.name]]
            if any(v is not None for v in values):
                counted = self.name in program.counted and program.name not in without
                rows.append(Row(program.name, program.title, values, counted, program.note))
        return rows

    def of(self, name: str, metric: Metric) -> "list[float]":
        """One program's values."""
        return [v for v in (metric(f) for f in self.results.get(name, []) if f) if v is not None]


def ratio(row: Row, other: "Row | None") -> "float | None":
    """Median of the rounds' ratios."""
    if other is None:
        return None
    pairs = [a / b for a, b in zip(row.values, other.values) if a is not None and b]
    return median(pairs) if pairs else None


def number(value: "float | None", digits: int = 2) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def verdict(rows: "list[Row]", most: bool = False) -> str:
    """The first among those that count."""
    counted = sorted((r for r in rows if r.counted), key=lambda r: r.middle, reverse=most)
    ours = next((r for r in counted if r.name == "dashcam"), None)
    if ours is None or not counted:
        return "dashcam has no figure here"
    best = counted[0]
    if best is ours:
        return "dashcam is first"
    apart = abs(ours.middle - best.middle)
    if apart <= DRAW_PART * abs(best.middle) or (not most and apart <= DRAW_NS):
        return f"dashcam draws with {best.title} ({number(ours.middle)} and {number(best.middle)})"
    return f"NOT first: {best.title} ({number(best.middle)}; dashcam {number(ours.middle)})"


def ns_table(title: str, rows: "list[Row]", yard: "dict[str, Row]", digits: int = 1) -> "dict[str, Any]":
    """A table of ns with ratios to yardsticks; returns its content for the file."""
    ours = next((r for r in rows if r.name == "dashcam"), None)
    columns = {"x dashcam": ours, **yard}
    print(f"\n{title}")
    print(f"  {'':44}{'ns':>8}{'+-%':>6}" + "".join(f"{c:>14}" for c in columns))
    for row in sorted(rows, key=lambda r: r.middle):
        ratios = "".join(f"{number(ratio(row, other)):>14}" for other in columns.values())
        mark = "" if row.counted else " *"
        print(f"  {row.title + mark:44}{number(row.middle, digits):>8}{row.spread * 100:6.0f}{ratios}")
    said = verdict(rows)
    print(f"  -> {said}")
    return {"table": title, "rows": {r.name: r.middle for r in rows}, "verdict": said}


def yardsticks(way: Way) -> "dict[str, Row]":
    """Two clock reads: dashcam's own clock, and the raw counter; one value for each round."""
    def row(metric: Metric) -> Row:
        values = [metric(f) if f else None for f in way.results["dashcam"]]
        return Row("", "", values, False)
    return {"x 2 now_ns": row(lambda f: less(f, "two_now_ns", "empty")),
            "x 2 rdtsc": row(lambda f: less(f, "two_rdtsc", "empty"))}


def calls(way: Way) -> "list[dict[str, Any]]":
    """Spans and events."""
    yard = yardsticks(way)
    silent = ("tracing-flight-recorder",)
    reported = []
    rows = way.rows(lambda f: less(f, "span", "empty"), silent)
    rows += [Row("bare", "dashcam, no attribute", [less(f, "bare_span", "empty") if f else None
                 for f in way.results["dashcam"]], False)]
    rows += [Row("region", "Go, region alone", [less(f, "region", "empty") if f else None
                 for f in way.results.get("go", [])], False)] if "go" in way.results else []
    reported.append(ns_table("Span with an integer attribute, on", rows, yard))
    rows = way.rows(lambda f: off(f, "span_off"))
    reported.append(ns_table("The same, off: ns over the empty loop", rows, {}, 2))
    rows = way.rows(lambda f: off(f, "event_off"))
    reported.append(ns_table("Event, off: ns over the empty loop", rows, {}, 2))
    rows = way.rows(lambda f: less(f, "span_work", "work"), silent)
    reported.append(ns_table("Span around real work (about 80 ns), marginal", rows, yard))
    rows = way.rows(lambda f: less(f, "event", "empty"))
    rows += [Row("bare", "dashcam, no attribute", [less(f, "bare_event", "empty") if f else None
                 for f in way.results["dashcam"]], False)]
    reported.append(ns_table("Event with an integer attribute, one thread", rows, yard))
    rows = way.rows(lambda f: f.get("event_2_threads"))
    reported.append(ns_table("Event, two threads at once: ns a thread", rows, {}))
    rows = way.rows(scaling)
    print("\nTwo threads' throughput, times one thread's")
    for row in sorted(rows, key=lambda r: -r.middle):
        print(f"  {row.title + ('' if row.counted else ' *'):44}{number(row.middle):>8}")
    said = verdict(rows, most=True)
    print(f"  -> {said}")
    reported.append({"table": "scaling", "rows": {r.name: r.middle for r in rows}, "verdict": said})
    return reported


def limits(way: Way) -> "dict[str, float]":
    """The limits of the machine."""
    reported = {}
    print("\nLimits of the machine")
    for name, key, source, base in [
        ("empty loop, ns", "empty", "limits", ""), ("rdtsc, ns", "rdtsc", "limits", "empty"),
        ("clock_gettime, ns", "clock_gettime", "limits", "empty"),
        ("two rdtsc, ns", "two_rdtsc", "dashcam", "empty"),
        ("two dashcam::now_ns, ns", "two_now_ns", "dashcam", "empty"),
        ("two clock_gettime, ns", "two_clock_gettime", "dashcam", "empty"),
        ("two rdtsc + 32-byte record, ns", "span", "plain", "empty"),
        ("memcpy of 64 MiB, ms", "memcpy_ms", "limits", ""),
        ("memcpy of 64 MiB into fresh pages, ms", "memcpy_fresh_ms", "limits", ""),
        ("write of 64 MiB to a file, ms", "file_ms", "limits", ""),
        ("thread spawn + join, ns", "spawn_join_ns", "limits", ""),
    ]:
        values = way.of(source, lambda f: less(f, key, base) if base else f.get(key))
        if values:
            reported[name] = median(values)
            print(f"  {name:44}{number(median(values)):>12}")
    return reported


def churn(way: Way) -> "list[dict[str, Any]]":
    """Threads that start and end."""
    reported = []
    for spawners in SPAWNERS:
        def kept(f: "dict[str, Any]", n: int = spawners) -> float:
            # On and off alternate, so the k-th of each are neighbours in time. A recorder makes no
            # threads faster: a result above 1 is noise.
            return min(median(a / b for a, b in zip(f[f"on_{n}"], f[f"off_{n}"]) if b), 1.0)
        rows = way.rows(kept)
        print(f"\nThread churn {{spawn, 3 events, join}}, {spawners} spawners: threads/s on / off")
        print(f"  {'':44}{'on/off':>8}{'+-%':>6}{'threads/s on':>14}{'bytes a thread':>16}")
        for row in sorted(rows, key=lambda r: -r.middle):
            rate = median(v for f in way.results[row.name] if f for v in f[f"on_{spawners}"])
            grown = median(way.of(row.name, lambda f: f[f"bytes_a_thread_{spawners}"]))
            mark = "" if row.counted else " *"
            print(f"  {row.title + mark:44}{row.middle:8.2f}{row.spread * 100:6.0f}{rate:14,.0f}{grown:16,.0f}")
        said = verdict(rows, most=True)
        print(f"  -> {said}")
        reported.append({"table": f"churn {spawners}", "rows": {r.name: r.middle for r in rows}, "verdict": said})
    return reported


def every(way: Way, name: str, key: str) -> "list[float]":
    """A list's values of all rounds."""
    return [v for f in way.results[name] if f for v in f.get(key, [])]


class Dump:
    """One program's dumps with that many writers."""

    def __init__(self, way: Way, program: Program, writers: str) -> None:
        self.name, self.title = program.name, program.title
        self.counted = "snapshot" in program.counted
        keys = ("dump_ms", "bytes", "gap_us", "quiet_us", "rate")
        self.took, self.size, self.during, self.quiet, self.rate = (
            every(way, program.name, f"{writers}_{key}") for key in keys)

    @property
    def stall(self) -> float:
        """The largest gap during a dump beside the largest without, medians."""
        return median(self.during) / max(median(self.quiet), 1e-9)

    def row(self, values: "list[float]") -> Row:
        """As text for a verdict."""
        return Row(self.name, self.title, list(values), self.counted)

    def line(self) -> str:
        """As text for the table."""
        speed = median(b / (1 << 20) / (t / 1e3) for b, t in zip(self.size, self.took))
        gap = f"{median(self.during):,.0f} ({max(self.during):,.0f})"
        noise = f"{median(self.quiet):,.0f} ({max(self.quiet):,.0f})"
        mark = "" if self.counted else " *"
        return (f"  {self.title + mark:44}{median(self.took):8.0f}{speed:8.0f}{gap:>24}{noise:>18}"
                f"{median(self.rate):14.2f}")


def snapshot(way: Way) -> "list[dict[str, Any]]":
    """Dumps while writers record."""
    reported = []
    for writers, title in (("one", "one writer flat out"), ("all", "a writer on every core")):
        print(f"\nSnapshot of a full 64 MiB, {title}")
        print(f"  {'':44}{'ms':>8}{'MiB/s':>8}{'largest gap during, us':>24}{'without, us':>18}"
              f"{'writer keeps':>14}")
        print(f"  {'':44}{'':16}{'median (worst)':>24}{'median (worst)':>18}{'speed':>14}")
        dumps = [d for d in (Dump(way, p, writers) for p in way.programs) if d.took]
        for dump in sorted(dumps, key=lambda d: median(d.took)):
            print(dump.line())
        said = [f"time: {verdict([d.row(d.took) for d in dumps])}",
                f"largest gap: {verdict([d.row(d.during) for d in dumps])}"]
        by_name = {d.name: d for d in dumps}
        if "dashcam" in by_name:
            ours = by_name["dashcam"]
            said.append(f"dashcam's gap is {ours.stall:.2f} x the machine's own (medians), "
                        f"{'within' if median(ours.during) <= max(ours.quiet) else 'ABOVE'} the largest without a dump")
        if "plain" in by_name and writers == "all":
            said.append("no core is free here, so any dump takes time from writers: a bare copy of 64 MiB to a file "
                        f"makes gaps of {median(by_name['plain'].during):,.0f} us")
        if "plain-turns" in by_name and writers == "all":
            said.append(f"in turns like dashcam's: {median(by_name['plain-turns'].during):,.0f} us")
        for line in said:
            print(f"  -> {line}")
        reported.append({"table": f"snapshot {writers}", "verdict": said,
                     "rows": {d.name: {"ms": median(d.took), "gap_us": median(d.during)} for d in dumps}})
    return reported


def goals(ways: "dict[str, Way]") -> "list[str]":
    """What was promised, and the measured figures."""
    lines = []

    def goal(what: str, values: "list[float]", limit: float, most: bool = False, digits: int = 2) -> None:
        if values:
            found = median(values)
            met = found >= limit if most else found <= limit
            lines.append(f"{'met   ' if met else 'MISSED'}  {what}: {found:.{digits}f}, wanted "
                         f"{'at least' if most else 'at most'} {limit:g}")

    if "calls" in ways:
        way = ways["calls"]
        for span, name in (("bare_span", "span"), ("span", "span + attribute")):
            for clock, called in (("two_now_ns", "two dashcam::now_ns"), ("two_rdtsc", "two rdtsc")):
                def part(f: "dict[str, Any]", a: str = span, b: str = clock) -> "float | None":
                    top, bottom = less(f, a, "empty"), less(f, b, "empty")
                    return top / bottom if top is not None and bottom else None
                goal(f"{name}, on, x {called}", way.of("dashcam", part), 1.35)
        goal("span off, ns over the empty loop", way.of("dashcam", lambda f: off(f, "span_off")), 1.5)
        goal("event off, ns over the empty loop", way.of("dashcam", lambda f: off(f, "event_off")), 1.5)
        goal("two threads, x one", way.of("dashcam", scaling), 1.9, most=True)
    if "churn" in ways:
        for n in SPAWNERS:
            def kept(f: "dict[str, Any]", n: int = n) -> float:
                return median(a / b for a, b in zip(f[f"on_{n}"], f[f"off_{n}"]) if b)
            goal(f"churn, {n} spawners, on / off", ways["churn"].of("dashcam", kept), 0.97, most=True)
    if "snapshot" in ways:
        for name in ("dashcam", "dashcam-1GiB"):
            way = ways["snapshot"]
            if name in way.results:
                during, quiet = (every(way, name, f"one_{k}_us") for k in ("gap", "quiet"))
                if during:
                    goal(f"largest gap of one writer in a snapshot, {name}, x without",
                         [median(during) / max(median(quiet), 1e-9)], 1.0)
    return lines


def show(machine: "dict[str, Any]", found: "dict[str, Any]", everything: "list[Program]",
         counts: "dict[str, float]") -> "list[dict[str, Any]]":
    """Prints all; returns the tables' content for the file."""
    print(f"{machine['cpu']}, {machine['cores']} cores, kernel {machine['kernel']}, load {machine['load']:.1f} "
          "at the start; medians of interleaved rounds")
    ways = {name: Way(name, way, everything) for name, way in found.items()}
    rows: "list[dict[str, Any]]" = []
    if "calls" in ways:
        rows.append({"table": "limits", "rows": limits(ways["calls"])})
        rows += calls(ways["calls"])
    if "churn" in ways:
        rows += churn(ways["churn"])
    if "snapshot" in ways:
        rows += snapshot(ways["snapshot"])
    if "metrics" in ways:
        rows += counters.show(found["metrics"], everything)
    if counts:
        print("\nInstructions a call, beyond the empty loop (callgrind)")
        for case, instructions in counts.items():
            print(f"  {case:44}{instructions:8.0f}")
    elif set(ways) != {"metrics"}:
        print("\nSKIPPED: instructions a call: valgrind is not installed")
    notes = {p.title: p.note for p in everything if p.note and set(p.ways) & set(ways) - {"metrics"}}
    if notes:
        print("\n* cannot be first: a limit, or a part of this bench. What each is:")
    for title, note in notes.items():
        print(f"  {title}: {note}")
    lines = goals(ways)
    if lines:
        print("\nGoals")
    for line in lines:
        print(f"  {line}")
    lost = [f"{r['table']}: {line}" for r in rows for line in
            ([r["verdict"]] if isinstance(r.get("verdict"), str) else r.get("verdict", [])) if "NOT" in line]
    print(f"\nRows in which dashcam is not first: {len(lost)}")
    for line in lost:
        print(f"  {line}")
    rows.append({"table": "goals", "rows": lines})
    return rows
