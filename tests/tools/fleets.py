"""Fleets for tests: rows drawn with a known truth, and captures cloned for other hosts.

How it works: `Drawn` makes rows of the fleet's tables for hosts, versions and days, with causes
whose cost is known, as if captures had been judged. `clone` gives a capture another META (host,
labels, time), with a new checksum.

What it promises: the same seed gives the same rows. Slow requests come in bursts, hosts differ, and
a burst is one capture, as with the recorder's cooldown.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import struct
import zlib
from typing import Any, NamedTuple

import pyarrow as pa
from dashcam._fleet.rows import schema

MAGIC = b"DASHCAM 2\n"
BEGIN = datetime.datetime(2025, 11, 24)
S = 10**9


def clone(capture: bytes, **changes: Any) -> bytes:
    """The capture with these keys of META changed."""
    out, at = [MAGIC], len(MAGIC)
    while at < len(capture):
        tag, size = capture[at:at + 4], struct.unpack_from("<I", capture, at + 4)[0]
        payload = capture[at + 12:at + 12 + size]
        at += 12 + size
        if tag == b"META":
            meta = json.loads(payload) | changes
            if "capture_id" in meta and "capture_id" not in changes:
                # Another capture.
                meta["capture_id"] = hashlib.sha256(json.dumps(meta).encode()).hexdigest()[:32]
            payload = json.dumps(meta).encode()
        head = tag + struct.pack("<I", len(payload))
        out += [head, struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))), payload]
    return b"".join(out)


class Cause(NamedTuple):
    """A planted cause."""

    name: str
    excess_s: float
    """Of a burst, on average."""
    bursts_a_day: float
    """On each host that has it."""
    service: str = "billy"
    versions: tuple[str, ...] = ()
    """Only on these; empty: on all."""
    hosts: tuple[int, ...] = ()
    """Only on these; empty: on all."""
    days: tuple[float, float] = (0.0, 1e9)
    kind: str = "lock-wait"
    file: str = "app.py"


class Drawn:
    """Rows of a fleet. `versions` says which version a host runs at a time (in days)."""

    def __init__(self, seed: int, hosts: int, days: float, causes: list[Cause], *, versions: Any = None,
                 unexplained: float = 0.05) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = {"captures": [], "findings": [], "requests": [], "parts": []}
        self.truth: dict[tuple[str, str], float] = {}
        # Hosts differ: some are three times as troubled as others.
        self.frailty = [self.chance.gammavariate(4, 0.25) for _ in range(hosts)]
        self.unexplained = unexplained
        version_of = versions or (lambda host, day: "1.0")
        for cause in causes:
            for host in cause.hosts or range(hosts):
                for day in self._times(cause.bursts_a_day * self.frailty[host], days):
                    version = version_of(host, day)
                    in_time = cause.days[0] <= day < cause.days[1]
                    if in_time and (not cause.versions or version in cause.versions):
                        self._burst(cause, host, day, version)

    def healthy(self, host: int, day: float, version: str = "1.0", service: str = "billy") -> None:
        """A capture without a slow request."""
        self._capture(service, host, day, version, 0, 0)

    def tables(self) -> dict[str, pa.Table]:
        """The rows as tables."""
        return {name: pa.Table.from_pylist(rows, schema=schema.arrow(schema.named(name), folders=True))
                for name, rows in self.rows.items()}

    def _times(self, rate: float, days: float) -> list[float]:
        found, day = [], self.chance.expovariate(rate) if rate > 0 else days
        while day < days:
            found.append(day)
            day += self.chance.expovariate(rate)
        return found

    def plant(self, name: str, excess_s: list[float], *, day: float = 0.5, host: int = 0, first_request: int = 0,
              begin_day: float | None = None) -> None:
        """A capture with requests of these excesses, all by one cause; the first one began then."""
        cause = Cause(name, sum(excess_s), 1.0)
        self._finding(cause, host, day, "1.0", [int(part * S) for part in excess_s], first_request)
        if begin_day is not None:
            self.rows["captures"][-1]["first_slow_utc"] = BEGIN + datetime.timedelta(days=begin_day)

    def _burst(self, cause: Cause, host: int, day: float, version: str) -> None:
        excess_ns = int(cause.excess_s * S * self.chance.gammavariate(2, 0.5))
        count = 1 + self.chance.randrange(16)
        parts = [excess_ns // count + (excess_ns % count if nth == 0 else 0) for nth in range(count)]
        self._finding(cause, host, day, version, parts, len(self.rows["requests"]))

    def _finding(self, cause: Cause, host: int, day: float, version: str, parts: list[int], first_request: int) -> None:
        excess_ns, requests = sum(parts), len(parts)
        named_ns = int(excess_ns * (1 - self.unexplained))
        key = (cause.service, cause.name)
        self.truth[key] = self.truth.get(key, 0.0) + named_ns
        origin = self._capture(cause.service, host, day, version, requests, excess_ns)
        captured = origin["captured_utc"]
        self.rows["captures"][-1]["unexplained_ns"] = excess_ns - named_ns
        self.rows["findings"].append(origin | {
            "rank": 1, "cause": cause.kind, "confidence": "confirmed", "fingerprint": cause.name, "excess_ns": named_ns,
            "share": 1 - self.unexplained, "slow_requests": requests, "normal_requests": 0, "first_utc": captured, "last_utc": captured,
            "request": "GET /", "path": "view", "place_function": cause.name, "place_file": cause.file, "place_line": 7,
            "summary": f"{cause.file}:7 {cause.name}() waited", "advice": "Wait less.", "trace_ids": [],
        })
        self.rows["requests"] += [
            origin | {"request_id": first_request + nth, "name": "GET /", "begin_utc": captured, "duration_ns": part + S // 100,
                      "excess_ns": part, "queued_ns": 0, "is_error": False, "is_open": False}
            for nth, part in enumerate(parts)
        ]
        for nth, part in enumerate(parts):
            own_ns = int(part * (1 - self.unexplained))
            divided = (({"cause": cause.kind, "fingerprint": cause.name, "place": f"{cause.file}:7 {cause.name}()"}, own_ns),
                       ({"cause": "cpu"}, part + S // 100 - own_ns))
            self.rows["parts"] += [origin | {"request_id": first_request + nth, "number": number, "duration_ns": ns, "intervals": 1} | named
                                   for number, (named, ns) in enumerate(divided, start=1)]

    def _capture(self, service: str, host: int, day: float, version: str, requests: int, excess_ns: int) -> dict[str, Any]:
        captured = BEGIN + datetime.timedelta(days=day)
        nth = len(self.rows["captures"])
        origin = {
            "capture_id": f"{nth:032x}", "captured_utc": captured, "version": version, "host": f"host-{host:04}", "pid": 100,
            "started_utc": BEGIN, "rules_version": "0.1.0", "day": captured.date(), "service": service,
        }
        self.rows["captures"].append(origin | {
            "uri": f"{service}-{nth}.dashcam", "bytes": 1000, "first_slow_utc": captured if requests else None, "from_utc": captured - datetime.timedelta(minutes=1), "reason": "slow",
            "slow": "500ms", "total_requests": 1000, "slow_requests": requests, "excess_ns": excess_ns, "unexplained_ns": 0,
            "sources_off": [], "losses": 0, "damage": [], "labels": [("version", version)], "runtime": "", "dashcam_version": "0.1.0",
        })
        return origin


def page() -> str:
    """The last part of docs/fleet-tables.md."""
    out = "### Every row of captures, findings, requests and parts\n\n" + _table(schema.FOLDERS + schema.ORIGIN)
    for table in schema.TABLES:
        has_origin = table.columns[0] == schema.ORIGIN[0]
        own = tuple(column for column in table.columns if not (has_origin and column in schema.ORIGIN))
        out += f"\n### {table.name}\n\n{table.about}\n\n" + _table(own)
    return out


def _table(columns: tuple[schema.Column, ...]) -> str:
    lines = [f"| `{column.name}` | {column.type} | {column.about} |" for column in columns]
    return "\n".join(["| column | type | what it says |", "| --- | --- | --- |", *lines]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
