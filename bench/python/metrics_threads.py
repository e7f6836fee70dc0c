"""Counts/s of 1, 2 and 8 threads in Python: dashcam beside `statsd`, `datadog`, prometheus_client
and OpenTelemetry; and the experiment of the model, a StatsD client of another language whose
authors moved the sending off the caller: a datagram for each call, a thread with a queue, and
batched.

Each client runs in a process of its own, the processes in turn (A B C, B C A ...), medians of the
rounds. Each client that sends has a server on this machine, a process that reads and counts. At the
end its accounts are checked: calls = arrived + lost and counted by the client + lost by the
server's socket (the kernel counts those datagrams) + unknown. Two rates: of the callers, and until
all of it was sent; a client that only queues is fast in the first alone. Options: --quick."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from metrics import only_this_target

THREADS = (1, 2, 8)
# Calls of one run, all threads together: cheap calls (enough that threads take turns with the GIL),
# and calls that make a system call or wait for one.
CHEAP, EXPENSIVE = 4_000_000, 24_000
# SO_RCVBUFFORCE, for which socket has no name: a larger buffer than the machine's limit, if
# permitted.
FORCE_ROOM, ROOM = 33, 1 << 28
PACKET = 1432


@dataclass
class Client:
    """`loop` makes that many calls. `settle` waits until they are sent. `lost`: the client's own
    number of lost counts. `kept`: for clients that send nothing, the sum. `packs`: a datagram is
    more than one count."""

    loop: "Callable[[int], None]"
    turns: int = EXPENSIVE
    settle: "Callable[[], object]" = lambda: None
    lost: "Callable[[], int]" = lambda: 0
    kept: "Callable[[], float] | None" = None
    packs: bool = True


def dropped(port: int) -> int:
    """Datagrams that the socket on this port had no room for."""
    local = f"0100007F:{port:04X}"
    for line in Path("/proc/net/udp").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[1] == local:
            return int(words[-1])
    return 0


def receive(pipe: Any) -> None:
    """Reads datagrams until it is ended; then reports how many, the sum of all counters, and the
    number dropped.
    """
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, FORCE_ROOM):
        try:
            server.setsockopt(socket.SOL_SOCKET, option, ROOM)
        except OSError:
            pass
    server.bind(("127.0.0.1", 0))
    server.settimeout(0.2)
    port = server.getsockname()[1]
    pipe.send(port)
    packets, total = 0, 0.0
    while True:
        try:
            data = server.recv(65536)
        except socket.timeout:
            if pipe.poll():
                break
            continue
        packets += 1
        for line in data.split(b"\n"):
            value, _, kind = line.partition(b":")[2].partition(b"|")
            if kind[:1] == b"c":
                total += float(value)
    pipe.send((packets, total, dropped(port)))


def dashcam_started() -> Any:
    import dashcam

    dashcam.start(service="bench", out=tempfile.gettempdir(), slow="1h")
    return dashcam


def dashcam_lost() -> int:
    """Lines: here each has many counts, so a lost line is reported, but not how many counts it
    had.
    """
    import dashcam

    return sum(dashcam.status()["statsd"]["dropped_lines"].values())


def dashcam_handle(port: int) -> Client:
    dashcam = dashcam_started()
    counter = dashcam.counter("threads")

    def loop(n: int) -> None:
        for _ in range(n):
            counter.inc()

    return Client(loop, CHEAP, dashcam.flush, dashcam_lost)


def dashcam_name(port: int) -> Client:
    dashcam = dashcam_started()
    count = dashcam.count

    def loop(n: int) -> None:
        for _ in range(n):
            count("threads")

    return Client(loop, CHEAP, dashcam.flush, dashcam_lost)


def statsd_plain(port: int) -> Client:
    from statsd import StatsClient

    client = StatsClient("127.0.0.1", port)

    def loop(n: int) -> None:
        for _ in range(n):
            client.incr("threads")

    return Client(loop, packs=False)


def statsd_pipeline(port: int) -> Client:
    """A pipeline of 50 calls, for each thread its own."""
    from statsd import StatsClient

    client = StatsClient("127.0.0.1", port)

    def loop(n: int) -> None:
        for at in range(0, n, 50):
            with client.pipeline() as pipe:
                for _ in range(min(50, n - at)):
                    pipe.incr("threads")

    return Client(loop, EXPENSIVE * 4)


def datadog(port: int, **how: Any) -> Client:
    from datadog.dogstatsd.base import DogStatsd

    client = DogStatsd("127.0.0.1", port, disable_telemetry=True, origin_detection_enabled=False, **how)

    def loop(n: int) -> None:
        for _ in range(n):
            client.increment("threads")

    def lost() -> int:
        return int(client.packets_dropped_queue + client.packets_dropped_writer)

    def settle() -> None:
        # Windows of aggregation go to the buffer, which `flush` sends; it does not take a window.
        client.flush_aggregated_metrics()
        client.flush()

    return Client(loop, EXPENSIVE * 4 if how else EXPENSIVE, settle, lost, packs=bool(how))


def prometheus(port: int) -> Client:
    from prometheus_client import CollectorRegistry, Counter

    registry = CollectorRegistry()
    counter = Counter("threads", "threads", registry=registry)

    def loop(n: int) -> None:
        for _ in range(n):
            counter.inc()

    return Client(loop, EXPENSIVE * 8, kept=lambda: registry.get_sample_value("threads_total") or 0.0)


def otel(port: int) -> Client:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    counter = MeterProvider([reader]).get_meter("bench").create_counter("threads")

    def loop(n: int) -> None:
        for _ in range(n):
            counter.add(1)

    def kept() -> float:
        found: Any = reader.get_metrics_data()
        metrics = found.resource_metrics[0].scope_metrics[0].metrics
        return float(sum(point.value for point in metrics[0].data.data_points))

    return Client(loop, EXPENSIVE * 2, kept=kept)


class Wire:
    """The model's client, small: one socket, and how many datagrams the kernel refused."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.refused = 0

    def send(self, lines: "list[bytes]") -> None:
        """One datagram."""
        try:
            self.socket.send(b"\n".join(lines))
        except OSError:
            self.refused += len(lines)

    @staticmethod
    def line(name: str, value: int) -> bytes:
        """Sent by each call itself."""
        return f"{name}:{value}|c".encode()


def model_plain(port: int) -> Client:
    """The caller sends."""
    wire = Wire(port)

    def loop(n: int) -> None:
        for _ in range(n):
            wire.send([wire.line("threads", 1)])

    return Client(loop, lost=lambda: wire.refused, packs=False)


def model_dispatcher(port: int) -> Client:
    """A queue without bound, as in the model's first version; a thread sends a datagram for each
    line.
    """
    wire = Wire(port)
    waiting: "queue.Queue[bytes]" = queue.Queue()

    def dispatch() -> None:
        while True:
            wire.send([waiting.get()])
            waiting.task_done()

    def loop(n: int) -> None:
        for _ in range(n):
            waiting.put(wire.line("threads", 1))

    threading.Thread(target=dispatch, daemon=True).start()
    return Client(loop, settle=waiting.join, lost=lambda: wire.refused, packs=False)


def model_batched(port: int) -> Client:
    """A queue of 5,000 lines, as in the model today: a thread packs the queued lines into
    datagrams; a caller that finds the queue full sends itself."""
    wire = Wire(port)
    waiting: "queue.Queue[bytes]" = queue.Queue(5000)

    def dispatch() -> None:
        while True:
            lines, taken = [waiting.get()], 1
            size = len(lines[0])
            while True:
                try:
                    line = waiting.get_nowait()
                except queue.Empty:
                    break
                taken += 1
                if size + 1 + len(line) > PACKET:
                    wire.send(lines)
                    lines, size = [], -1
                lines.append(line)
                size += 1 + len(line)
            wire.send(lines)
            for _ in range(taken):
                waiting.task_done()

    def loop(n: int) -> None:
        for _ in range(n):
            line = wire.line("threads", 1)
            try:
                waiting.put_nowait(line)
            except queue.Full:
                wire.send([line])

    threading.Thread(target=dispatch, daemon=True).start()
    return Client(loop, EXPENSIVE * 2, settle=waiting.join, lost=lambda: wire.refused)


BUFFERED = {"disable_buffering": False}
CLIENTS: "dict[str, Callable[[int], Client]]" = {
    "dashcam: handle.inc()": dashcam_handle, "dashcam: count(name)": dashcam_name,
    "statsd: incr": statsd_plain, "statsd: incr in pipelines of 50": statsd_pipeline,
    "datadog: increment, unbuffered": datadog,
    "datadog: increment, buffered": lambda port: datadog(port, **BUFFERED),
    "datadog: increment, aggregated": lambda port: datadog(port, disable_aggregation=False, **BUFFERED),
    "prometheus_client: inc()": prometheus, "OpenTelemetry: add(1)": otel,
    "model: a datagram a call": model_plain, "model: a thread and its queue": model_dispatcher,
    "model: a thread and its queue, batched": model_batched}
OURS = ("dashcam: handle.inc()", "dashcam: count(name)")
MODEL = tuple(name for name in CLIENTS if name.startswith("model"))


def at_once(client: Client, threads: int) -> "tuple[float, float, int]":
    """Calls/s of that many threads, the rate until all was sent, and the calls."""
    each = client.turns // threads
    gate = threading.Barrier(threads)
    times: "list[tuple[float, float]]" = []

    def work() -> None:
        gate.wait()
        begin = time.perf_counter()
        client.loop(each)
        times.append((begin, time.perf_counter()))

    made = [threading.Thread(target=work) for _ in range(threads)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    client.settle()
    through = time.perf_counter()
    begin, end = min(t[0] for t in times), max(t[1] for t in times)
    calls = each * threads
    return calls / (end - begin), calls / (through - begin), calls


def one(name: str) -> int:
    """Measures one client; prints a line of JSON."""
    pipe, theirs = multiprocessing.Pipe()
    # Before the client starts: a fork copies no threads.
    server = multiprocessing.Process(target=receive, args=(theirs,), daemon=True)
    server.start()
    port = int(pipe.recv())
    only_this_target(port)
    try:
        client = CLIENTS[name](port)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        return 0
    called = 0
    figures: "dict[str, list[float]]" = {}
    # The first run is for warming up.
    for threads in (1, *THREADS):
        rate, through, calls = at_once(client, threads)
        called += calls
        figures[str(threads)] = [rate, through]
    # Lines that a thread of the client holds at this moment are sent, too.
    time.sleep(0.2)
    client.settle()
    lost = client.lost()
    pipe.send(None)
    packets, arrived, by_socket = pipe.recv()
    if client.kept is not None:
        arrived = client.kept()
    missing = called - arrived - lost
    # The number of counts in a lost datagram of many lines is not known any more.
    in_socket = missing if client.packs and by_socket else by_socket
    print(json.dumps({"rates": figures, "called": called, "arrived": arrived, "lost": lost, "socket": in_socket,
                      "unknown": missing - in_socket, "packets": packets}), flush=True)
    # Threads of clients are daemons or not: nothing waits for them here.
    os._exit(0)


def rounds_of(rounds: int) -> "tuple[dict[str, list[dict[str, Any]]], list[str]]":
    """Name -> figures of each round, and what was left out."""
    found: "dict[str, list[dict[str, Any]]]" = {name: [] for name in CLIENTS}
    absent: "dict[str, str]" = {}
    names = list(CLIENTS)
    for turn in range(rounds):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            if name in absent:
                continue
            done = subprocess.run([sys.executable, __file__, "--client", name], capture_output=True, text=True,
                                  check=False, timeout=300)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if done.returncode or not lines:
                said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                absent[name] = f"ended with {done.returncode} and said: {said}"
                continue
            figures = json.loads(lines[-1])
            if "absent" in figures:
                absent[name] = figures["absent"]
            else:
                found[name].append(figures)
    kept = {name: rows for name, rows in found.items() if rows and name not in absent}
    return kept, [f"SKIPPED: {name}: {why}" for name, why in absent.items()]


def middle(rows: "list[dict[str, Any]]", threads: int, which: int) -> float:
    """Median rate: of the callers (0), until all was sent (1)."""
    return statistics.median(row["rates"][str(threads)][which] for row in rows)


def thousands(rows: "list[dict[str, Any]]", threads: int) -> str:
    """Both rates, in thousands a second."""
    return f"{middle(rows, threads, 0) / 1e3:,.0f} ({middle(rows, threads, 1) / 1e3:,.0f})"


def show_rates(found: "dict[str, list[dict[str, Any]]]") -> None:
    """Counts per second of all clients."""
    heads = "".join(f"{f'{n} thread' + 's' * (n > 1):>20}" for n in THREADS)
    print(f"  {'thousand counts/s; (until all was sent)':42}{heads}")
    clients = [name for name in found if name not in MODEL]
    for name in sorted(clients, key=lambda name: -middle(found[name], THREADS[-1], 0)):
        print(f"  {name:42}" + "".join(f"{thousands(found[name], n):>20}" for n in THREADS))
    rivals = [name for name in clients if name not in OURS]
    for ours in OURS:
        if ours in found and rivals:
            for n in THREADS:
                best = max(rivals, key=lambda name: middle(found[name], n, 0))
                times = middle(found[ours], n, 0) / middle(found[best], n, 0)
                print(f"  -> {n} thread{'s' * (n > 1)}, {ours}: {times:.0f} times the best other ({best})")


def show_model(found: "dict[str, list[dict[str, Any]]]") -> None:
    """The model's experiment."""
    print("\nThe model's experiment: thousand counts/s; (until all was sent); x: callers beside a datagram a call")
    plain = found.get(MODEL[0])
    for name in (*MODEL, *reversed(OURS)):
        if name not in found:
            continue
        cells: "list[str]" = []
        for n in THREADS:
            times = f" x{middle(found[name], n, 0) / middle(plain, n, 0):.1f}" if plain else ""
            cells.append(f"{thousands(found[name], n) + times:>24}")
        print(f"  {name:42}{''.join(cells)}")


def show_books(found: "dict[str, list[dict[str, Any]]]") -> bool:
    """Called = arrived + lost, of all rounds. False: dashcam's accounts are wrong."""
    keys = ("called", "arrived", "lost", "socket", "unknown")
    heads = ("called", "arrived or kept", "lost, counted", "lost by socket", "unknown")
    print("\n  " + " " * 42 + "".join(f"{head:>17}" for head in heads))
    for name, rows in found.items():
        print(f"  {name:42}" + "".join(f"{sum(row[key] for row in rows):17,.0f}" for key in keys))
    fine = all(row["unknown"] == 0 and row["lost"] == 0 for name in OURS for row in found.get(name, []))
    print("  -> dashcam's books are right" if fine else "  -> DASHCAM'S BOOKS ARE WRONG", flush=True)
    return fine


def main() -> int:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--client", choices=tuple(CLIENTS), help="only: measure this one, print JSON")
    given = parser.parse_args()
    if given.client:
        return one(given.client)
    rounds = 2 if given.quick else 7
    load = os.getloadavg()[0]
    found, absent = rounds_of(rounds)
    print(f"Counters in threads, Python {sys.version.split()[0]}, load {load:.1f} before and "
          f"{os.getloadavg()[0]:.1f} after; medians of {rounds} rounds, a process each")
    show_rates(found)
    show_model(found)
    fine = show_books(found)
    for line in absent:
        print(line)
    return 0 if fine and all(name in found for name in OURS) else 1


if __name__ == "__main__":
    sys.exit(main())
