#!/usr/bin/env python3
"""An HTTP load generator for loopback services: throughput and latency percentiles.

Closed loop by default: each connection sends its next request when the last was answered. With
--rate it is an open loop: requests are due at fixed times, and latency counts from the time a
request was due, so a stalled server is not hidden by a generator that waits for it. Standard
library only; runs as its own process, so none of its threads appear in the service.

Bounded: only loopback addresses, at most 256 connections and an hour; a failed request is counted,
its connection opened anew, and its time is not among the latencies.
"""

from __future__ import annotations

import argparse
import glob
import http.client
import ipaddress
import itertools
import json
import random
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


MAX_CONNECTIONS = 256
MAX_SECONDS = 3600.0


@dataclass
class Tally:
    """The result of the requests: latencies in seconds, failures."""

    latencies: list[float] = field(default_factory=list)
    errors: int = 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="http://127.0.0.1:PORT/")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--warmup", type=float, default=0.0, help="load so many seconds before, uncounted"
    )
    parser.add_argument(
        "--rate", type=float, default=0.0, help="requests a second in all; 0: as fast as answered"
    )
    parser.add_argument(
        "--path", action="append", default=[], help="PATH or PATH:WEIGHT, repeatable"
    )
    parser.add_argument(
        "--wait-ready", type=float, default=0.0, help="wait so many seconds for the port"
    )
    parser.add_argument(
        "--settle",
        type=float,
        default=0.0,
        help="ask nothing for so many seconds after that: servers listen before their workers are up",
    )
    parser.add_argument(
        "--slow-ms", type=float, default=500.0, help="count answers slower than this"
    )
    parser.add_argument(
        "--enough",
        metavar="GLOB",
        help="end before --seconds once a file matches and --enough-slow answers were slow",
    )
    parser.add_argument("--enough-slow", type=int, default=1)
    parser.add_argument("--json", help="write the result to this file too")
    options = parser.parse_args()
    if not 1 <= options.connections <= MAX_CONNECTIONS:
        parser.error(f"--connections {options.connections}: wanted 1 to {MAX_CONNECTIONS}")
    if not 0 < options.seconds <= MAX_SECONDS or not 0 <= options.warmup <= MAX_SECONDS:
        parser.error(f"--seconds, --warmup: wanted at most {MAX_SECONDS:g}")
    if options.rate < 0:
        parser.error(f"--rate {options.rate:g}: wanted 0 or more")
    return options


def loopback(url: str) -> tuple[str, int]:
    """Host and port of a loopback URL; anything else is refused."""
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname == "localhost" else (parts.hostname or "")
    try:
        allowed = ipaddress.ip_address(host).is_loopback
    except ValueError:
        allowed = False
    if not allowed or parts.port is None:
        print(
            f"load: {url}: wanted http://127.0.0.1:PORT/ (only loopback is loaded)", file=sys.stderr
        )
        sys.exit(2)
    return host, parts.port


def wait_ready(host: str, port: int, seconds: float) -> None:
    """Returns when the port accepts; exits if it does not in time."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(f"load: {host}:{port} not ready after {seconds} s: {error}")
            time.sleep(0.05)


def paths(given: list[str]) -> list[str]:
    """Paths, each as often as its weight."""
    out: list[str] = []
    for item in given or ["/"]:
        path, _, weight = item.rpartition(":")
        if path and weight.isdigit():
            out += [path] * int(weight)
        else:
            out.append(item)
    return out


def worker(
    host: str,
    port: int,
    choice: list[str],
    due: "itertools.count[int]",
    rate: float,
    begin: float,
    end: float,
    tally: Tally,
    enough: threading.Event,
) -> None:
    """One connection until `end`, or until there are enough answers."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    pick = random.Random(id(tally))
    while not enough.is_set():
        start = time.perf_counter()
        if rate:
            start = begin + next(due) / rate
            if start < end:
                time.sleep(max(0.0, start - time.perf_counter()))
        if start >= end:
            break
        try:
            connection.request("GET", pick.choice(choice))
            response = connection.getresponse()
            response.read()
            if response.status >= 500:
                tally.errors += 1
        except (OSError, http.client.HTTPException):
            tally.errors += 1
            connection.close()
            time.sleep(0.02)
            continue
        tally.latencies.append(time.perf_counter() - start)
    connection.close()


def load(options: argparse.Namespace, seconds: float) -> tuple[Tally, float]:
    """Loads the service for that long; returns the result, and the seconds it took."""
    host, port = loopback(options.url)
    choice, due = paths(options.path), itertools.count()
    tallies = [Tally() for _ in range(options.connections)]
    begin = time.perf_counter()
    end = begin + seconds
    enough = threading.Event()
    threads = [
        threading.Thread(
            target=worker, args=(host, port, choice, due, options.rate, begin, end, t, enough)
        )
        for t in tallies
    ]
    for thread in threads:
        thread.start()
    while options.enough and not enough.wait(0.1) and any(t.is_alive() for t in threads):
        slow = sum(x * 1e3 > options.slow_ms for t in tallies for x in list(t.latencies))
        if slow >= options.enough_slow and glob.glob(options.enough):
            enough.set()
    for thread in threads:
        thread.join()
    both = Tally([x for t in tallies for x in t.latencies], sum(t.errors for t in tallies))
    return both, time.perf_counter() - begin


def run(options: argparse.Namespace) -> dict[str, float]:
    """Waits for the service, warms it up, loads it and sums up."""
    host, port = loopback(options.url)
    if options.wait_ready:
        wait_ready(host, port, options.wait_ready)
    time.sleep(options.settle)
    if options.warmup:
        load(options, options.warmup)
    tally, took = load(options, options.seconds)
    return summary(tally.latencies, tally.errors, took, options.slow_ms)


def summary(latencies: list[float], errors: int, took: float, slow_ms: float) -> dict[str, float]:
    """Percentiles in ms, and how many were over the limit."""
    ordered = sorted(latencies) or [0.0]

    def at(part: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e3, 2)

    return {
        "requests": len(latencies),
        "errors": errors,
        "per_second": round(len(latencies) / took, 1),
        "p50_ms": at(0.5),
        "p90_ms": at(0.9),
        "p99_ms": at(0.99),
        "p999_ms": at(0.999),
        "max_ms": round(ordered[-1] * 1e3, 2),
        "slow": sum(x * 1e3 > slow_ms for x in ordered),
        "slow_ms": slow_ms,
    }


def main() -> int:
    """Prints one line; 1 when nothing was answered, 2 for wrong arguments."""
    options = arguments()
    result = run(options)
    print("  ".join(f"{key} {value:g}" for key, value in result.items()))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    return 0 if result["requests"] else 1


if __name__ == "__main__":
    sys.exit(main())
