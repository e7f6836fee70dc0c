"""The cost of a metric call in Python: dashcam by name, by handle and through its compatible APIs,
beside `statsd`, `datadog`, prometheus_client and OpenTelemetry; and whether everything that was
sent arrived.

One process, rounds in turn (A B C, B C A ...), medians. Every client that sends has a receiver of
its own on this machine, a process that reads and counts, so that no client meets a dead port.
Options: --quick. The receivers share the machine's cores with the callers, as an agent does."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable

Loop = Callable[[int], None]
OURS = "dashcam"
# Turns of a loop: cheap calls, calls that make a system call.
CHEAP, EXPENSIVE = 100_000, 5_000


@dataclass
class Case:
    """A loop of calls. `rival`: a StatsD client for comparison."""

    name: str
    loop: Loop
    turns: int
    rival: bool = False
    settle: "Callable[[], None] | None" = None


def receive(pipe: Any) -> None:
    """Reads datagrams until it is ended; then reports how many, and the sums of counters by
    name.
    """
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    server.bind(("127.0.0.1", 0))
    server.settimeout(0.1)
    pipe.send(server.getsockname()[1])
    packets, lines, sums = 0, 0, {}
    while True:
        try:
            data = server.recv(65536)
        except socket.timeout:
            if pipe.poll():
                break
            continue
        packets += 1
        for line in data.split(b"\n"):
            if not line:
                continue
            lines += 1
            name, _, rest = line.partition(b":")
            if b"|c" in rest:
                value = float(rest.split(b"|")[0])
                sums[name.decode()] = sums.get(name.decode(), 0.0) + value
    pipe.send((packets, lines, sums))


class Receiver:
    """A UDP port in a process of its own."""

    def __init__(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=receive, args=(theirs,), daemon=True)
        self.process.start()
        self.port = int(self.pipe.recv())

    def end(self) -> "tuple[int, int, dict[str, float]]":
        """Packets, lines, name -> sum of what arrived."""
        self.pipe.send(None)
        found: "tuple[int, int, dict[str, float]]" = self.pipe.recv()
        self.process.join()
        return found


def empty(n: int) -> None:
    for _ in range(n):
        pass


def dashcam_cases() -> "list[Case]":
    """By name, by handle, with a tag, and through the compatible APIs."""
    import dashcam
    from dashcam.compat import datadog, statsd

    inc, count = dashcam.counter("handle").inc, dashcam.count
    orders = dashcam.counter("handle")
    tags, listed = {"region": "eu"}, ["region:eu"]
    client, dog = statsd.StatsClient(prefix="door"), datadog.DogStatsd()

    def handle(n: int) -> None:
        for _ in range(n):
            orders.inc()

    def bound(n: int) -> None:
        for _ in range(n):
            inc()

    def name(n: int) -> None:
        for _ in range(n):
            count("name")

    def tagged(n: int) -> None:
        for _ in range(n):
            count("tagged", tags=tags)

    def door(n: int) -> None:
        for _ in range(n):
            client.incr("statsd")

    def dog_door(n: int) -> None:
        for _ in range(n):
            dog.increment("datadog")

    def dog_tagged(n: int) -> None:
        for _ in range(n):
            dog.increment("datadog.tagged", tags=listed)

    return [Case("dashcam: handle.inc()", handle, CHEAP),
            Case("dashcam: inc(), method looked up before", bound, CHEAP),
            Case("dashcam: count(name)", name, CHEAP),
            Case("dashcam: count(name), one tag", tagged, CHEAP),
            Case("dashcam.compat.statsd: incr", door, CHEAP),
            Case("dashcam.compat.datadog: increment", dog_door, CHEAP),
            Case("dashcam.compat.datadog: increment, one tag", dog_tagged, CHEAP)]


def statsd_cases(port: int) -> "list[Case]":
    """PyPI's statsd: one datagram for each call, and a pipeline of 50 calls."""
    import statsd

    client = statsd.StatsClient("127.0.0.1", port, prefix="rival")

    def plain(n: int) -> None:
        for _ in range(n):
            client.incr("statsd")

    def pipeline(n: int) -> None:
        for _ in range(n // 50):
            with client.pipeline() as pipe:
                for _ in range(50):
                    pipe.incr("statsd")

    return [Case("statsd: incr", plain, EXPENSIVE, rival=True),
            Case("statsd: incr in pipelines of 50", pipeline, EXPENSIVE, rival=True)]


def datadog_cases(port: int) -> "list[Case]":
    """datadog: a datagram for each call, buffered, aggregated."""
    from datadog.dogstatsd.base import DogStatsd

    def of(title: str, **how: Any) -> Case:
        client = DogStatsd("127.0.0.1", port, disable_telemetry=True,
                           origin_detection_enabled=False, **how)

        def loop(n: int) -> None:
            for _ in range(n):
                client.increment("rival.datadog")

        return Case(title, loop, EXPENSIVE, rival=True, settle=client.flush)

    return [of("datadog: increment, unbuffered"),
            of("datadog: increment, buffered", disable_buffering=False),
            of("datadog: increment, aggregated", disable_buffering=False, disable_aggregation=False)]


def prometheus_cases() -> "list[Case]":
    """prometheus_client: the counter alone, and with labels that are looked up at each call."""
    from prometheus_client import CollectorRegistry, Counter

    registry = CollectorRegistry()
    plain = Counter("orders", "orders", registry=registry)
    labelled = Counter("sales", "sales", ["region"], registry=registry)

    def inc(n: int) -> None:
        for _ in range(n):
            plain.inc()

    def labels(n: int) -> None:
        for _ in range(n):
            labelled.labels("eu").inc()

    return [Case("prometheus_client: inc()", inc, EXPENSIVE * 4),
            Case("prometheus_client: labels().inc()", labels, EXPENSIVE * 4)]


def otel_cases() -> "list[Case]":
    """OpenTelemetry's counter with a reader in memory."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    counter = MeterProvider([InMemoryMetricReader()]).get_meter("bench").create_counter("orders")
    attributes = {"region": "eu"}

    def add(n: int) -> None:
        for _ in range(n):
            counter.add(1)

    def tagged(n: int) -> None:
        for _ in range(n):
            counter.add(1, attributes)

    return [Case("OpenTelemetry: add(1)", add, EXPENSIVE),
            Case("OpenTelemetry: add(1, one attribute)", tagged, EXPENSIVE)]


def measure(cases: "list[Case]", rounds: int) -> "tuple[dict[str, list[float]], dict[str, int]]":
    """Name -> ns for each turn of each round; name -> turns in all."""
    times: "dict[str, list[float]]" = {case.name: [] for case in cases}
    turns = {case.name: 0 for case in cases}
    for turn in range(rounds):
        at = turn % len(cases)
        for case in cases[at:] + cases[:at]:
            begin = time.perf_counter_ns()
            case.loop(case.turns)
            times[case.name].append((time.perf_counter_ns() - begin) / case.turns)
            turns[case.name] += case.turns
            if case.settle is not None:
                case.settle()
    return times, turns


def threads_rate(threads: int, turns: int) -> float:
    """Counts per second by that many threads together, by handle."""
    import dashcam

    counter = dashcam.counter("threads")
    gate = threading.Barrier(threads + 1)

    def work() -> None:
        gate.wait()
        for _ in range(turns):
            counter.inc()

    made = [threading.Thread(target=work) for _ in range(threads)]
    for thread in made:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    for thread in made:
        thread.join()
    return threads * turns / (time.perf_counter() - begin)


def many_series(series: int, windows: int) -> int:
    """Counts in that many series, a window after each turn, so that many lines are sent; returns
    how often.
    """
    import dashcam

    handles = [dashcam.counter("series", tags={"n": n}) for n in range(series)]
    for _ in range(windows):
        for handle in handles:
            handle.inc()
        dashcam.flush()
    return series * windows


def books(turns: "dict[str, int]", more: int, receiver: Receiver) -> bool:
    """Dashcam: calls = arrived, and lines sent = lines arrived + lines lost. Prints both."""
    import dashcam

    whole = dashcam.flush()
    reported = dashcam.status()["statsd"]
    dashcam.stop()
    _, lines, sums = receiver.end()
    lost = sum(reported["dropped_lines"].values())
    ours = {name: n for name, n in turns.items() if name.startswith(OURS)}
    called = sum(ours.values()) + more
    # Metrics of the sink and of the compatible APIs about themselves are left out.
    own = ("dashcam.",)
    arrived = sum(v for name, v in sums.items() if not name.startswith(own))
    print(f"\ncounted {called:,}; arrived {arrived:,.0f}, in {lines:,} lines")
    print(f"lines: produced {reported['lines']:,} = sent {reported['sent_lines']:,} + lost {lost:,} + "
          f"waiting {reported['waiting_lines']:,}; arrived {lines:,}")
    fine = whole and reported["lines"] == reported["sent_lines"] + lost + reported["waiting_lines"]
    if reported["sent_lines"] != lines:
        # UDP: datagrams for which the receiver had no room are lost between kernel and receiver;
        # only this difference shows their number.
        print(f"  {reported['sent_lines'] - lines:,} lines were lost by the receiver's socket")
    elif lost == 0:
        fine = fine and arrived == called
    print("  -> the books are right" if fine else "  -> THE BOOKS ARE WRONG", flush=True)
    return fine


def gone() -> int:
    """The receiver ends in the middle; the queue has room for one window. Everything that did not
    arrive is counted."""
    receiver = Receiver()
    only_this_target(receiver.port)
    os.environ["DASHCAM_STATSD_QUEUE"] = "300KiB"
    import dashcam

    dashcam.start(service="bench", out="/tmp", slow="1h")
    series, wide = 1000, "x" * 200
    handles = [dashcam.counter("series", tags={"n": n, "wide": wide}) for n in range(series)]

    def window() -> None:
        for handle in handles:
            handle.inc()
        dashcam.flush()

    window()
    before = dashcam.status()["statsd"]
    _, lines, sums = receiver.end()
    # There is no receiver: each waits its two seconds in vain.
    window()
    window()
    reported = dashcam.status()["statsd"]
    dashcam.stop()
    lost = sum(reported["dropped_lines"].values())
    fine = (before["sent_lines"] == lines and sum(sums.values()) == series and lost > 0
            and reported["lines"] == reported["sent_lines"] + lost + reported["waiting_lines"]
            and reported["lines"] == 3 * series)
    print(f"receiver gone after a third: produced {reported['lines']:,} = sent {reported['sent_lines']:,} + "
          f"lost {lost:,} + waiting {reported['waiting_lines']:,}; arrived {lines:,}")
    print("  -> the books are right" if fine else "  -> THE BOOKS ARE WRONG")
    return 0 if fine else 1


def only_this_target(port: int) -> None:
    """The environment names the bench's receiver and nothing else."""
    for name in [n for n in os.environ if n.startswith(("DD_", "STATSD_", "DASHCAM_"))]:
        del os.environ[name]
    os.environ["DASHCAM_STATSD"] = f"udp://127.0.0.1:{port}"
    os.environ["DASHCAM_STATSD_SELF"] = "off"


def main() -> int:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gone", action="store_true", help="only: a receiver that ends")
    given = parser.parse_args()
    if given.gone:
        return gone()
    rounds = 3 if given.quick else 15
    ours, theirs = Receiver(), Receiver()
    only_this_target(ours.port)
    import dashcam

    cases, absent = [Case("empty loop", empty, CHEAP)], []
    groups: "list[tuple[str, Callable[[], list[Case]]]]" = [
        ("dashcam", dashcam_cases), ("statsd", lambda: statsd_cases(theirs.port)),
        ("datadog", lambda: datadog_cases(theirs.port)),
        ("prometheus_client", prometheus_cases), ("opentelemetry", otel_cases)]
    dashcam.start(service="bench", out="/tmp", slow="1h")
    for name, make in groups:
        try:
            cases += make()
        except ImportError as error:
            absent.append(f"SKIPPED: {name}: {error}")
    load = os.getloadavg()[0]
    times, turns = measure(cases, rounds)
    middle = {name: statistics.median(found) for name, found in times.items()}
    loop = middle.pop("empty loop")
    handle, by_name = middle["dashcam: handle.inc()"], middle["dashcam: count(name)"]
    print(f"Python {sys.version.split()[0]}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; "
          f"ns a call, the loop's {loop:.0f} included; medians of {rounds} rounds")
    print(f"  {'':46}{'ns':>9}{'best':>9}{'x handle':>10}{'x name':>9}")
    for name, ns in sorted(middle.items(), key=lambda item: item[1]):
        print(f"  {name:46}{ns:9.0f}{min(times[name]):9.0f}{ns / handle:10.1f}{ns / by_name:9.1f}")
    rivals = {case.name: middle[case.name] for case in cases if case.rival}
    if rivals:
        best = min(rivals, key=lambda name: rivals[name])
        net = rivals[best] - loop
        print(f"  -> best other StatsD client: {best}; ours is {rivals[best] / handle:.0f} times cheaper by "
              f"handle, {rivals[best] / by_name:.0f} times by name; without the loop's own time "
              f"{net / (handle - loop):.0f} and {net / (by_name - loop):.0f} times")
    many = 0
    for threads in (1, 2, 8):
        each = 400_000 // threads
        many += each * threads
        print(f"  {threads} threads by handle: {threads_rate(threads, each) / 1e6:.1f} million counts/s")
    many += many_series(1000, 20)
    for line in absent:
        print(line)
    theirs.end()
    fine = books(turns, many, ours)
    # In a process of its own: a process has one sink.
    code = subprocess.run([sys.executable, __file__, "--gone"], check=False).returncode
    return 0 if fine and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
