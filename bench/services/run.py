"""The cost of a recorder for a service: throughput and p50, p99, p99.9 of a Flask service on
gunicorn and a FastAPI service on uvicorn, with nothing, with dashcam, with py-spy attached, with
ddtrace's profiler and with OpenTelemetry's instrumentation, in one run.

The servers of all variants run side by side, on one CPU together with their recorders. They are
started anew now and then: the memory of each lies elsewhere, which alone makes some percent. The
clients, with 8 connections, have the other CPU (clients.py). Load goes to them in turn, for a second or two each time, and
each round begins with another variant: a change of the machine's speed meets all of them.

A turn has two blocks. The first is flat out, which gives throughput and CPU time for each request
(of the server, its children and its recorder: it says more than throughput where the machine's host
takes CPU away). The second runs at a quarter of the bare service's rate, which gives latencies:
flat out they show the length of the queue. Ratios are those inside a round, then their median;
latencies are of all requests of all rounds. A server that waits for its turn is idle; py-spy, which
samples an idle process as often, is attached when its turn begins. Needs two CPUs
and the venv that `tools/bench_services` makes.

    python bench/services/run.py [--quick] [--own] [--service flask|fastapi]

`--own`: only the bare service and dashcam, with and without switch records; 8 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Iterator

from clients import CONNECTIONS, Clients

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SERVER_CPU, LOAD_CPU = "0", "1"
#: Rounds that a set of servers lives.
SET = 3

SERVICES = {
    "flask": ["gunicorn", "--threads", "8", "--log-level", "error", "-b", "127.0.0.1:{port}", "flask_app:app"],
    "fastapi": ["uvicorn", "--log-level", "error", "--no-access-log", "--port", "{port}", "fastapi_app:app"],
}
OTEL = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": "bench",
        "OTEL_PYTHON_LOG_LEVEL": "critical"}
DD_PROFILER = {"DD_PROFILING_ENABLED": "true", "DD_TRACE_ENABLED": "false",
               "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false"}
# : Name -> (words in front of the command, environment).
VARIANTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "nothing": ([], {}),
    "dashcam": (["dashcam", "run", "--slow", "10s", "--service", "bench", "--out", "{out}", "--"], {}),
    "dashcam, switches off": (["dashcam", "run", "--slow", "10s", "--service", "bench", "--out", "{out}", "--"],
                              {"DASHCAM_SWITCHES": "off"}),
    "py-spy 100 Hz": ([], {}),
    "ddtrace profiler": (["ddtrace-run"], DD_PROFILER),
    "OpenTelemetry": (["opentelemetry-instrument"], OTEL),
}

#: The variants of `--own`.
OWN = ("nothing", "dashcam", "dashcam, switches off")


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Collector:
    """Accepts and drops what OpenTelemetry sends: a missing collector would cost its client
    retries.
    """

    def __init__(self) -> None:
        self.port = free_port()
        code = ("import http.server as h\n"
                "class T(h.BaseHTTPRequestHandler):\n"
                "    protocol_version = 'HTTP/1.1'\n"
                "    def do_POST(self):\n"
                "        self.rfile.read(int(self.headers['content-length'])); self.send_response(200)\n"
                "        self.send_header('content-length', '0'); self.end_headers()\n"
                "    def log_message(self, *a): pass\n"
                f"h.ThreadingHTTPServer(('127.0.0.1', {self.port}), T).serve_forever()\n")
        self.process = subprocess.Popen(["taskset", "-c", LOAD_CPU, sys.executable, "-c", code])

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()


class Server:
    """The service with a variant around it."""

    def __init__(self, service: str, variant: str, collector: Collector) -> None:
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="dashcam-bench-")
        words, env = VARIANTS[variant]
        place = {"port": str(self.port), "out": self.folder.name}
        command = [word.format(**place) for word in [*words, *SERVICES[service]]]
        more = {"PATH": f"{BIN}:{os.environ['PATH']}"}
        if variant == "OpenTelemetry":  # dashcam would send its traces and metrics there, too
            more["DASHCAM_OTLP"] = "env"
            more["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.port}"
        log = open(Path(self.folder.name) / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *command], cwd=HERE, stdout=log, stderr=log,
                                        env={**os.environ, **env, **more}, start_new_session=True)
        self.wait()
        self.spied = variant.startswith("py-spy")
        self.spy: subprocess.Popen[bytes] | None = None

    def wait(self) -> None:
        """Waits until it answers."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/price/5", timeout=2).read()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        reported = (Path(self.folder.name) / "log").read_text(encoding="utf-8")
        raise SystemExit(f"bench: the service did not start: {reported[-2000:]}")

    def attach(self) -> "subprocess.Popen[bytes]":
        """Attaches py-spy to the serving process: gunicorn's worker."""
        workers = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        pid = workers[0] if workers else str(self.process.pid)
        return subprocess.Popen(["taskset", "-c", SERVER_CPU, BIN / "py-spy", "record", "--rate", "100", "--format", "raw",
                                 "--duration", "3600", "--output", Path(self.folder.name) / "spy", "--pid", pid],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def rest(self) -> None:
        """Its turn is over."""
        if self.spy:
            end(self.spy)
            self.spy = None

    def wake(self) -> None:
        """Its turn begins."""
        if self.spied:
            self.spy = self.attach()
            time.sleep(1)  # it reads the symbols first

    def cpu_s(self) -> float:
        """CPU time of its processes, and of their recorder, so far."""
        spy = self.spy.pid if self.spy else None
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it ended
            if int(fields[3]) == self.process.pid or int(stat.parent.name) == spy:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ends all of it."""
        self.rest()
        os.killpg(self.process.pid, signal.SIGTERM)
        end(self.process)
        self.folder.cleanup()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Asks it to end, and ends it if it does not."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class Block:
    """What requests flat out gave: how many, in how many seconds, their median time, errors."""

    requests: int
    seconds: float
    p50_us: float
    errors: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def flat_out(port: int, seconds: float) -> Block:
    """As many requests as the service can answer."""
    clients = Clients(port)
    begin = time.perf_counter()
    took = clients.ask_for(seconds)
    block = Block(len(took), time.perf_counter() - begin, statistics.median(took) * 1e3, clients.errors)
    clients.close()
    return block


PACED = r'''
import http.client, sys, threading, time
port, rate, seconds, connections = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
took, lock = [], threading.Lock()
begin = time.perf_counter() + 0.2
def work(number):
    connection, mine, turn = http.client.HTTPConnection("127.0.0.1", port), [], number
    while True:
        due = begin + turn / rate
        if due > begin + seconds: break
        pause = due - time.perf_counter()
        if pause > 0: time.sleep(pause)
        connection.request("GET", "/price/5"); connection.getresponse().read()
        mine.append(time.perf_counter() - due)
        turn += connections
    with lock: took.extend(mine)
threads = [threading.Thread(target=work, args=(n,)) for n in range(connections)]
[t.start() for t in threads]; [t.join() for t in threads]
print(*(round(seconds * 1e6) for seconds in took))
'''


def paced(port: int, rate: float, seconds: int) -> list[float]:
    """Latencies in ms at a fixed rate, from when each request was due: a stall delays the requests
    behind it.
    """
    result = subprocess.run(["taskset", "-c", LOAD_CPU, sys.executable, "-c", PACED, str(port), str(rate), str(seconds),
                             str(CONNECTIONS)], capture_output=True, text=True, check=True)
    return [int(word) / 1e3 for word in result.stdout.split()]


def stolen() -> tuple[int, int]:
    """Ticks that the host took from this machine, and all ticks, so far."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:9]]
    return fields[7], sum(fields)


def turns(rounds: int) -> Iterator[list[str]]:
    """Variants in turn, each round beginning with another one."""
    names = list(VARIANTS)
    for at in range(rounds):
        yield names[at % len(names):] + names[:at % len(names)]


@dataclass
class Figures:
    """For a variant: a figure for each round, and the latencies of each round."""

    rate: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    #: The median time of a request flat out, for each round.
    p50_us: list[float] = field(default_factory=list)
    errors: int = 0
    took_ms: list[list[float]] = field(default_factory=list)

    def tail(self, share: float, rounds: slice = slice(None)) -> float:
        """The latency below which this share of the requests of these rounds lies."""
        took = sorted(ms for round in self.took_ms[rounds] for ms in round)
        return took[min(len(took) - 1, int(len(took) * share))]

    def tails(self, share: float) -> list[float]:
        """The same for each of at most five parts of the run."""
        step = max(1, len(self.took_ms) // 5)
        return [self.tail(share, slice(at, at + step)) for at in range(0, len(self.took_ms), step)]


def measure(service: str, rounds: int, seconds: int) -> dict[str, Figures]:
    """All figures of all rounds, by variant."""
    figures = {name: Figures() for name in VARIANTS}
    rate, every = 0.0, list(turns(rounds))
    with Collector() as collector:
        for at in range(0, rounds, SET):
            with set_of_servers(service, collector) as servers:
                rate = rate or flat_out(servers["nothing"].port, seconds).rate / 4
                for number, names in enumerate(every[at:at + SET], at + 1):
                    for variant in names:
                        ask(servers[variant], figures[variant], seconds, rate)
                    print(f"  round {number} of {rounds} at {rate:.0f} req/s: " + ", ".join(
                        f"{name} {found.cpu_us[-1]:.0f}" for name, found in figures.items()) + " us of CPU",
                        file=sys.stderr, flush=True)
    return figures


@contextlib.contextmanager
def set_of_servers(service: str, collector: Collector) -> Iterator[dict[str, Server]]:
    """One of each variant."""
    servers: dict[str, Server] = {}
    try:
        for variant in VARIANTS:
            servers[variant] = Server(service, variant, collector)
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def ask(server: Server, figures: Figures, seconds: int, rate: float) -> None:
    """A turn of a server: both blocks."""
    server.wake()
    flat_out(server.port, 1)
    before = server.cpu_s()
    block = flat_out(server.port, seconds)
    figures.p50_us.append(block.p50_us)
    figures.cpu_us.append((server.cpu_s() - before) * 1e6 / block.requests)
    figures.rate.append(block.rate)
    figures.errors += block.errors
    figures.took_ms.append(paced(server.port, rate, seconds))
    server.rest()


def show(service: str, figures: dict[str, Figures]) -> None:
    """Medians; throughput, p50 and CPU flat out as medians of ratios inside a round, with their
    quartiles; then latencies at a quarter of the rate, and the spread of p99.9 between parts of the
    run."""
    print(f"\n{service}: {CONNECTIONS} connections, servers and recorders on one CPU")
    print(f"{'':24}{'req/s':>8}{'of nothing':>20}{'p50 ms':>8}{'of nothing':>20}{'CPU us':>9}{'of nothing':>20}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}"
          "   in each fifth of the run")
    bare = figures["nothing"]
    for name, found in figures.items():
        rate, cpu = ratio(found.rate, bare.rate), ratio(found.cpu_us, bare.cpu_us)
        p50 = ratio(found.p50_us, bare.p50_us)
        fifths = " ".join(f"{ms:.1f}" for ms in found.tails(0.999))
        errors = f"  {found.errors} errors" if found.errors else ""
        print(f"{name:24}{statistics.median(found.rate):>8.0f}{rate:>20}{statistics.median(found.p50_us) / 1e3:>8.2f}{p50:>20}"
              f"{statistics.median(found.cpu_us):>9.0f}{cpu:>20}"
              f"{found.tail(0.5):>9.2f}{found.tail(0.99):>9.2f}{found.tail(0.999):>10.2f}   {fifths}{errors}")


def ratio(of: list[float], to: list[float]) -> str:
    """The median of the ratios, and the quartiles around it."""
    ratios = [x / y for x, y in zip(of, to)]
    if len(ratios) < 2:
        return f"{ratios[0]:.1%}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.1%} ({low:.0%}-{high:.0%})"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="three rounds")
    parser.add_argument("--own", action="store_true", help="dashcam and the bare service only")
    parser.add_argument("--service", choices=list(SERVICES), action="append")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("bench: services: found one CPU, wanted two: SKIPPED")
    if given.own:
        for name in [name for name in VARIANTS if name not in OWN]:
            del VARIANTS[name]
    host, before = stolen()
    rounds, seconds = (3, 1) if given.quick else (given.rounds, given.seconds)
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    every: dict[str, dict[str, Figures]] = {}
    for service in given.service or SERVICES:
        every[service] = measure(service, rounds, seconds)
        show(service, every[service])
    host, ticks = stolen()[0] - host, stolen()[1] - before
    print(f"\nThe machine's host took {host / max(ticks, 1):.1%} of its CPU meanwhile.")
    if given.json:
        rows = {service: {name: asdict(found) for name, found in figures.items()} for service, figures in every.items()}
        given.json.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
