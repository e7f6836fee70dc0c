"""The fleet that both engines are asked about: captures of real programs, cloned for many hosts.

How it works: each golden capture becomes one of several hosts, versions and hours. Processes have
logs of request counts, more than was captured. Captures overlap, are judged twice, are damaged, and
names have characters that a layout of folders has to escape.
"""

from __future__ import annotations

import datetime
import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from dashcam._fleet.ask import tails
from dashcam._fleet.rows import schema

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
from fleets import Cause, Drawn, clone  # noqa: E402

BEGIN_NS = 1_763_942_400 * 10**9
HOUR_NS = 3600 * 10**9
# Rarely equal, never empty: spaces, percent, quotes, other letters, a number, the layout's own signs.
SERVICES = ("billy", "123", "bücher laden", "a/b=c%20d", "O'Brien \"x\"")
EPOCH = datetime.datetime(1970, 1, 1)
S = 10**9
# Golden captures that are not larger, each tenth of them.
GOLDEN_BYTES_MAX, GOLDEN_STEP = 60_000, 10
# Captures that one service alone has.
ALONE = 4


def golden(first: int = 0) -> list[bytes]:
    """Golden captures: many causes, small, the last one damaged."""
    paths = sorted(path for path in (ROOT / "tests" / "captures").glob("*.dashcam.gz") if path.stat().st_size <= GOLDEN_BYTES_MAX)
    whole = [path for path in paths if not path.name.startswith("damaged-")][first::GOLDEN_STEP]
    return [gzip.decompress(path.read_bytes()) for path in [*whole, paths[0].with_name("damaged-sleep_library-cut-at-60.dashcam.gz")]]


def captures(folder: Path, hosts: int = 24) -> int:
    """Writes captures and logs of counts; returns how many captures."""
    chance = random.Random(11)
    found = golden()
    for host in range(hosts):
        for nth in range(5):
            service = SERVICES[(host + nth) % len(SERVICES)]
            begin_ns = BEGIN_NS + int(chance.uniform(0, 60) * HOUR_NS)
            labels = {"version": "2.0" if begin_ns > BEGIN_NS + 30 * HOUR_NS and host % 3 == 0 else "1.0"} if host % 7 else {}
            if host % 2:
                labels["region"] = "eu"
            data = clone(found[(host * 5 + nth) % len(found)], host=f"host-{host:02}", service=service, labels=labels, pid=100 + nth,
                         start_epoch_ns=begin_ns)
            (folder / f"host-{host:02}-{nth}.dashcam").write_bytes(data)
        if host % 4 == 0:
            # Another capture of the same process, with the same requests.
            (folder / f"host-{host:02}-again.dashcam").write_bytes(clone(data, capture_id=f"{host:032x}"))
    # Causes that one service alone has: `show` takes the beginning of their fingerprint.
    for nth, data in enumerate(golden(GOLDEN_STEP // 2)[:ALONE]):
        alone = clone(data, host="host-00", service=SERVICES[nth % len(SERVICES)], labels={"version": "1.0"}, pid=900 + nth,
                      start_epoch_ns=BEGIN_NS + nth * HOUR_NS)
        (folder / f"host-00-alone-{nth}.dashcam").write_bytes(alone)
    (folder / "cut.dashcam").write_bytes(data[:300])
    (folder / "junk.dashcam").write_bytes(b"junk")
    return len(list(folder.glob("host-*.dashcam")))


def counts(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Writes logs of counts for the captured requests (`requests` of the tables), three times as
    many; every fifth name was never captured."""
    chance = random.Random(12)
    lines: dict[str, list[str]] = {}
    for nth, row in enumerate(sorted(rows, key=lambda row: (row["begin_utc"], row["capture_id"], row["request_id"]))):
        end_us = int((row["begin_utc"] - EPOCH).total_seconds() * 1e6) + row["duration_ns"] // 1000
        hour_ns = end_us // 3_600_000_000 * HOUR_NS
        name = row["name"] if nth % 5 else "never captured"
        one = {"name": name, "total": 1000, "slow": 3, "failed": 1, "sum_ns": 9 * S, "excess_ns": int(row["excess_ns"] * chance.uniform(1, 3)),
               "typical_ns": S // 100, "limit_ns": S // 2, "captured": 1, "suppressed": 2, "over_quota": 0, "histogram": [[100, 997], [tails.bucket_of(row["duration_ns"]), 3]]}
        labels = {"version": row["version"]} if row["version"] else {}
        lines.setdefault(row["service"], []).append(json.dumps({
            "schema": 1, "service": row["service"], "host": row["host"], "pid": row["pid"], "started_epoch_ns": hour_ns, "run": f"run-{nth % 9}",
            "number": nth, "last": nth % 4 == 0, "from_epoch_ns": hour_ns + 1, "to_epoch_ns": hour_ns + HOUR_NS - 1, "version": "0.1.0",
            "labels": labels, "requests": [one]}))
    for nth, service in enumerate(sorted(lines)):
        (folder / f"log-{nth}.rollups.log").write_text("\n".join(lines[service]) + "\n", "utf-8")


def drawn(seed: int, hosts: int) -> Drawn:
    """Rows of causes that are worse, new, on three hosts and gone in version 2.0."""
    causes = [
        Cause("refresh", 2.0, 0.8), Cause("refresh", 2.0, 2.0, versions=("2.0",)), Cause("fetch", 1.0, 2.0, versions=("2.0",), kind="downstream-wait"),
        Cause("gone", 1.0, 2.0, versions=("1.0",), kind="cpu"), Cause("odd", 2.0, 1.0, hosts=(0, 1, 2), kind="sleep"),
        Cause("refresh", 0.8, 0.5, service="shop"),
    ]
    return Drawn(seed, hosts, 4, causes, versions=lambda host, day: "2.0" if host < hosts // 3 and day >= 2 else "1.0")


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the fleet."""
    return pa.Table.from_pylist(rows, schema=schema.arrow(schema.named(name), folders=True))
