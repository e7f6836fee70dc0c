"""The cost of metrics for a service's requests: latency of a small server whose handlers count
100,000 times a second, beside the same server without metrics, and with other clients.

Each variant is a server in a process of its own, all started before; load goes to them in turns,
round by round, so that other load on the machine meets all of them. A server without load is
stopped (SIGSTOP), so that its threads do not run during another's round; before its round it is
continued, and loaded for a moment that is not counted. A request is sent at its planned time
whatever became of the previous one; its latency counts from that time. Four connections, a thread
each; every handler does a little work and counts `--metrics` times. StatsD clients send to a
receiver on this machine that reads and drops.

The tail of one round is a handful of requests, so tails are those of all rounds together. The
addition of a variant to p99.9 is given with the interval of nine in ten resamplings of the rounds
(drawn in pairs with those of the server without metrics). The server without metrics is there
twice: what the second one "adds" is the resolution of this run. Below the table follows for dashcam
whether p99.9 is unchanged as far as this run shows, and its resolution. Options: --quick, --rate,
--metrics, --rounds, --seconds."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import signal
import socket
import statistics
import sys
import threading
import time
from typing import Any, Callable

Count = Callable[[int], None]
CONNECTIONS = 4


def nothing() -> Count:
    return lambda n: None


def dashcam_quiet() -> Count:
    """Records, but counts no metric."""
    import dashcam

    dashcam.start(service="bench", out="/tmp", slow="1h")
    return lambda n: None


def dashcam_handles() -> Count:
    import dashcam

    dashcam.start(service="bench", out="/tmp", slow="1h")
    orders, took = dashcam.counter("orders").inc, dashcam.metric.timing("took").record

    def count(n: int) -> None:
        for _ in range(n // 2):
            orders()
            took(1.5)

    return count


def dashcam_names() -> Count:
    import dashcam

    dashcam.start(service="bench", out="/tmp", slow="1h")

    def count(n: int) -> None:
        for _ in range(n // 2):
            dashcam.count("orders")
            dashcam.timing("took", 1.5)

    return count


def prometheus() -> Count:
    from prometheus_client import CollectorRegistry, Counter, Histogram

    registry = CollectorRegistry()
    orders = Counter("orders", "orders", registry=registry)
    took = Histogram("took", "took", registry=registry)

    def count(n: int) -> None:
        for _ in range(n // 2):
            orders.inc()
            took.observe(1.5)

    return count


def otel() -> Count:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    meter = MeterProvider([InMemoryMetricReader()]).get_meter("bench")
    orders, took = meter.create_counter("orders"), meter.create_histogram("took")

    def count(n: int) -> None:
        for _ in range(n // 2):
            orders.add(1)
            took.record(1.5)

    return count


def datadog() -> Count:
    from datadog.dogstatsd.base import DogStatsd

    client = DogStatsd("127.0.0.1", int(os.environ["RECEIVER"]), disable_telemetry=True,
                       origin_detection_enabled=False, disable_buffering=False, disable_aggregation=False)

    def count(n: int) -> None:
        for _ in range(n // 2):
            client.increment("orders")
            client.timing("took", 1.5)

    return count


def statsd() -> Count:
    """A datagram for each call."""
    from statsd import StatsClient

    client = StatsClient("127.0.0.1", int(os.environ["RECEIVER"]))

    def count(n: int) -> None:
        for _ in range(n // 2):
            client.incr("orders")
            client.timing("took", 1.5)

    return count


def statsd_pipeline() -> Count:
    """A request's calls in as few datagrams as possible."""
    from statsd import StatsClient

    client = StatsClient("127.0.0.1", int(os.environ["RECEIVER"]))

    def count(n: int) -> None:
        with client.pipeline() as pipe:
            for _ in range(n // 2):
                pipe.incr("orders")
                pipe.timing("took", 1.5)

    return count


VARIANTS: "list[tuple[str, Callable[[], Count]]]" = [
    ("no metrics", nothing), ("no metrics, again", nothing), ("dashcam records, no metrics", dashcam_quiet),
    ("dashcam: handles", dashcam_handles), ("dashcam: by name", dashcam_names),
    ("prometheus_client", prometheus), ("OpenTelemetry", otel), ("datadog, aggregated", datadog),
    ("statsd", statsd), ("statsd, pipeline", statsd_pipeline)]


def serve(make: "Callable[[], Count]", metrics: int, pipe: Any) -> None:
    """A server: one byte is a request, one byte the answer; in between some work and that many
    metrics.
    """
    try:
        count = make()
    except ImportError as error:
        pipe.send(str(error))
        return
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(1):
            sum(range(200))
            count(metrics)
            connection.send(b"x")

    pipe.send(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=handle, args=(connection,), daemon=True).start()


def sink(pipe: Any) -> None:
    """Reads datagrams for ever."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    pipe.send(server.getsockname()[1])
    while True:
        server.recv(65536)


class Server:
    """A variant's process and the connections to it."""

    def __init__(self, name: str, make: "Callable[[], Count]", metrics: int) -> None:
        self.name = name
        pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(make, metrics, theirs), daemon=True)
        self.process.start()
        self.port = pipe.recv()
        self.rounds: "list[list[float]]" = []
        self.rates: "list[float]" = []
        self.connections: "list[socket.socket]" = []
        if isinstance(self.port, int):
            for _ in range(CONNECTIONS):
                connection = socket.create_connection(("127.0.0.1", self.port))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections.append(connection)

    def rest(self, rests: bool) -> None:
        """Stops the process, or continues it."""
        if self.process.pid:
            os.kill(self.process.pid, signal.SIGSTOP if rests else signal.SIGCONT)

    def turn(self, rate: float, seconds: float) -> None:
        """A round of its own."""
        self.rest(False)
        # Its postponed work: a window, a flush, a scrape.
        time.sleep(0.2)
        self.drive(rate, 0.3, keep=False)
        gc.collect()
        gc.disable()
        try:
            self.drive(rate, seconds, keep=True)
        finally:
            gc.enable()
            self.rest(True)

    def drive(self, rate: float, seconds: float, keep: bool) -> None:
        """Requests at their planned times over all connections; latencies in ms."""
        each = CONNECTIONS / rate
        begin = time.perf_counter() + 0.05
        found: "list[list[float]]" = [[] for _ in self.connections]

        def one(number: int, connection: socket.socket) -> None:
            planned = begin + each * number / CONNECTIONS
            while planned < begin + seconds:
                wait = planned - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
                connection.send(b"x")
                connection.recv(1)
                found[number].append((time.perf_counter() - planned) * 1e3)
                planned += each

        threads = [threading.Thread(target=one, args=item) for item in enumerate(self.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if keep:
            took = time.perf_counter() - begin
            self.rounds.append(sorted(ms for part in found for ms in part))
            self.rates.append(sum(len(part) for part in found) / took)


def part(sorted_ms: "list[float]", share: float) -> float:
    """Nearest rank."""
    return sorted_ms[min(len(sorted_ms) - 1, int(share * len(sorted_ms)))]


# Of a round's requests, the share of the slowest from which tails are read; at most what p99 needs
# if rounds differ.
TAIL = 0.05
# If equal servers differ by more than this, a run says nothing about small changes.
FINE_MS = 3.0
RESAMPLED = 400


def tail(sorted_ms: "list[float]") -> "tuple[int, list[float]]":
    """How many requests, and the slowest of them."""
    return len(sorted_ms), sorted_ms[-max(1, int(TAIL * len(sorted_ms))):]


def of_all(tails: "list[tuple[int, list[float]]]", share: float) -> float:
    """Nearest rank among the requests of all these rounds; `share` in the tail."""
    total = sum(n for n, _ in tails)
    behind = total - 1 - min(total - 1, int(share * total))
    slowest = sorted((ms for _, some in tails for ms in some), reverse=True)
    return slowest[min(behind, len(slowest) - 1)]


def added(mine: "list[list[float]]", base: "list[list[float]]", share: float) -> "tuple[float, float, float]":
    """The percentile of all rounds minus the base's, ms, and 5 % and 95 % of resamplings."""
    pairs = [(tail(a), tail(b)) for a, b in zip(mine, base)]

    def difference(some: "list[Any]") -> float:
        return of_all([a for a, _ in some], share) - of_all([b for _, b in some], share)

    draw = random.Random(1)
    drawn = sorted(difference(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLED))
    return difference(pairs), part(drawn, 0.05), part(drawn, 0.95)


def verdicts(servers: "list[Server]", rate: float) -> "list[str]":
    """The result of this run for dashcam's p99.9, and its resolution."""
    base, again = servers[0], servers[1]
    _, low, high = added(again.rounds, base.rounds, 0.999)
    noise = max(abs(low), abs(high))
    lines = [f"two servers without metrics differ at p99.9 by up to {noise:.2f} ms: less cannot be told here"]
    for server in servers:
        if not server.name.startswith("dashcam"):
            continue
        middle, low, high = added(server.rounds, base.rounds, 0.999)
        if low > noise:
            word = "CHANGED"
        elif noise > FINE_MS:
            word = f"not known: two equal servers differ by more than {FINE_MS:g} ms"
        elif high <= 2 * noise:
            word = "unchanged"
        else:
            word = "not known: the interval is wider than twice that"
        behind = "" if statistics.median(server.rates) >= 0.95 * rate else "; the wanted rate was NOT reached"
        lines.append(f"{server.name}: p99.9 {word}: {middle:+.2f} ms [{low:+.2f}, {high:+.2f}]{behind}")
    return lines


def main() -> int:
    """Sends the load, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rate", type=float, default=1000, help="requests a second")
    parser.add_argument("--metrics", type=int, default=100, help="metric calls a request")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round")
    given = parser.parse_args()
    rounds, seconds = (2, 1.0) if given.quick else (given.rounds, given.seconds)
    for name in [n for n in os.environ if n.startswith(("DD_", "STATSD_", "DASHCAM_"))]:
        del os.environ[name]
    pipe, theirs = multiprocessing.Pipe()
    multiprocessing.Process(target=sink, args=(theirs,), daemon=True).start()
    os.environ["RECEIVER"] = str(pipe.recv())
    os.environ["DASHCAM_STATSD"] = f"udp://127.0.0.1:{os.environ['RECEIVER']}"
    servers = [Server(name, make, given.metrics) for name, make in VARIANTS]
    there = [server for server in servers if isinstance(server.port, int)]
    load = os.getloadavg()[0]
    for server in there:
        server.drive(given.rate, 0.5, keep=False)
        server.rest(True)
    for turn in range(rounds):
        at = turn % len(there)
        for server in there[at:] + there[:at]:
            server.turn(given.rate, seconds)
    for server in there:
        # Daemons are ended at exit, which a stopped one would not notice.
        server.rest(False)
    print(f"Python {sys.version.split()[0]}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; "
          f"{given.rate:.0f} requests/s with {given.metrics} metric calls each wanted, {rounds} rounds of "
          f"{seconds:g} s in turn")
    print("latency in ms: p50 the median round's, the others of all rounds; [least, greatest] round; what is added to "
          "p99.9, and nine of ten resamplings")
    print(f"  {'':28}{'metrics/s':>11}{'p50':>8}{'p99':>9}{'p99.9':>9}{'[rounds]':>19}{'added':>10}{'[5 %, 95 %]':>20}")
    for server in there:
        rate = statistics.median(server.rates) * given.metrics
        tails, rounds_ms = [tail(ms) for ms in server.rounds], [part(ms, 0.999) for ms in server.rounds]
        text = f"  {server.name:28}{rate if server.name.find('no metrics') < 0 else 0:11,.0f}"
        text += f"{statistics.median(part(ms, 0.5) for ms in server.rounds):8.2f}"
        text += f"{of_all(tails, 0.99):9.2f}{of_all(tails, 0.999):9.2f}{f'[{min(rounds_ms):.2f}, {max(rounds_ms):.2f}]':>19}"
        if server is not there[0]:
            middle, low, high = added(server.rounds, there[0].rounds, 0.999)
            text += f"{middle:10.2f}{f'[{low:.2f}, {high:.2f}]':>20}"
        print(text)
    for line in verdicts(there, given.rate):
        print(f"  -> {line}")
    for server in servers:
        if server not in there:
            print(f"SKIPPED: {server.name}: {server.port}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
