"""Tables of the way `metrics`: the cost of one call on a counter by handle, by name and with a tag;
counts/s of 1, 2 and 8 threads; and how many counts arrived."""

from __future__ import annotations

from statistics import median
from typing import Any

from programs import Program

THREADS = {1: "1 thread", 2: "2 threads", 8: "8 threads"}
CALLS = (("handle", "by handle"), ("name", "by name"), ("tag", "with a tag"))


class Found:
    """The rounds of one client; a missing key is None."""

    def __init__(self, program: Program, rounds: "list[Any]") -> None:
        self.title, self.note = program.title, program.note
        self.counted = bool(program.counted)
        self.name = program.name
        self.rounds: "list[dict[str, Any]]" = [f for f in rounds if f]

    def of(self, key: str) -> "float | None":
        """Median of the rounds."""
        values = [float(f[key]) for f in self.rounds if key in f]
        return median(values) if values else None

    def net(self, key: str) -> "float | None":
        """Median of the ns beyond the empty loop of the same round."""
        values = [float(f[key]) - float(f["empty"]) for f in self.rounds if key in f]
        return max(median(values), 0.0) if values else None

    def total(self, key: str) -> "int | None":
        """Sum over the rounds."""
        values = [f[key] for f in self.rounds if key in f]
        return round(sum(values)) if values else None


def shown(value: "float | int | None", width: int, digits: int = 0) -> str:
    """A number, or a dash, padded to the width."""
    return ("-" if value is None else f"{value:,.{digits}f}").rjust(width)


def verdict(what: str, values: "dict[str, float]", ours: "float | None", most: bool = False) -> str:
    """Dashcam's figure beside the best of the others."""
    if ours is None or not values:
        return f"{what}: nothing to compare"
    best = (max if most else min)(values, key=lambda title: values[title])
    times = (ours / values[best] if most else values[best] / ours) if ours and values[best] else 0.0
    word = "dashcam is first" if times >= 1.0 else "NOT first"
    unit, digits = ("million/s", 2) if most else ("ns", 1)
    scale = 1e6 if most else 1.0
    return (f"{what}: {word}: dashcam {ours / scale:,.{digits}f} {unit}, best other {best} "
            f"{values[best] / scale:,.{digits}f} ({times:.2f} times)")


def costs(clients: "list[Found]") -> "dict[str, Any]":
    """Ns a call."""
    title = "Counter, Rust: ns a call over the empty loop"
    print(f"\n{title}")
    print(f"  {'':48}" + "".join(f"{head:>12}" for _, head in CALLS))
    def cheapest(client: Found) -> float:
        nets = (client.net(key) for key, _ in CALLS)
        return min(net for net in nets if net is not None)
    for client in sorted(clients, key=cheapest):
        print(f"  {client.title:48}" + "".join(shown(client.net(key), 12, 1) for key, _ in CALLS))
    said = []
    ours = next((c for c in clients if c.name == "dashcam"), None)
    for key, head in CALLS:
        # A client that sends nothing has less to do: StatsD clients are marked.
        for what, chosen in ((head, [c for c in clients if c.counted]),
                             (f"{head}, StatsD clients", [c for c in clients if c.name.startswith("cadence")])):
            nets = {c.title: c.net(key) for c in chosen if c.name != "dashcam"}
            others = {name: net for name, net in nets.items() if net is not None}
            if ours is not None and others:
                said.append(verdict(what, others, ours.net(key)))
    for line in said:
        print(f"  -> {line}")
    rows = {c.name: {key: c.net(key) for key, _ in CALLS} for c in clients}
    return {"table": title, "rows": rows, "verdict": said}


def rates(clients: "list[Found]") -> "dict[str, Any]":
    """Counts per second of several threads."""
    title = "Counter, Rust: million counts/s of so many threads, the cheapest way of each; (until all was sent)"
    print(f"\n{title}")
    print(f"  {'':48}" + "".join(f"{head:>18}" for head in THREADS.values()))
    for client in sorted(clients, key=lambda c: -(c.of("rate_8") or 0.0)):
        cells = []
        for n in THREADS:
            rate, through = client.of(f"rate_{n}"), client.of(f"through_{n}")
            sent = "" if through is None else f" ({through / 1e6:.2f})"
            cells.append(("-" if rate is None else f"{rate / 1e6:.2f}{sent}").rjust(18))
        print(f"  {client.title:48}{''.join(cells)}")
    said = []
    ours = next((c for c in clients if c.name == "dashcam"), None)
    for n, head in THREADS.items():
        found = {c.title: c.of(f"rate_{n}") for c in clients if c.counted and c.name != "dashcam"}
        others = {name: rate for name, rate in found.items() if rate is not None}
        if ours is not None and others:
            said.append(verdict(head, others, ours.of(f"rate_{n}"), most=True))
    for line in said:
        print(f"  -> {line}")
    rows = {c.name: {str(n): c.of(f"rate_{n}") for n in THREADS} for c in clients}
    return {"table": title, "rows": rows, "verdict": said}


def books(clients: "list[Found]") -> "dict[str, Any]":
    """Called = arrived + lost."""
    title = "Where the counts went: called = arrived (or kept) + lost and counted + lost by the server's socket + unknown"
    print(f"\n{title}")
    heads = ("called", "arrived", "counted", "socket", "unknown")
    keys = ("called", "arrived", "lost_counted", "lost_socket", "lost_unknown")
    print(f"  {'':48}" + "".join(f"{head:>14}" for head in heads))
    said = []
    for client in clients:
        print(f"  {client.title:48}" + "".join(shown(client.total(key), 14) for key in keys))
        if client.name.startswith("dashcam") and (client.total("lost_unknown") or client.total("lost_counted")):
            said.append(f"NOT RIGHT: the books of {client.title}")
    said = said or ["the books of dashcam are right: everything that was counted arrived or was lost by the socket"]
    for line in said:
        print(f"  -> {line}")
    return {"table": title, "rows": {c.name: {k: c.total(k) for k in keys} for c in clients}, "verdict": said}


def show(found: "dict[str, Any]", everything: "list[Program]") -> "list[dict[str, Any]]":
    """Prints the tables; returns their content for the file."""
    programs = [p for p in everything if "metrics" in p.ways]
    clients = [Found(p, found["results"][p.name]) for p in programs if p.name in found["results"]]
    clients = [client for client in clients if client.rounds]
    if not clients:
        return []
    reported = [costs(clients), rates(clients), books(clients)]
    print()
    for client in clients:
        print(f"  {client.title}: {client.note}")
    return reported
