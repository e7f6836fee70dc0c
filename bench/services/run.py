"""What a recorder costs a service: throughput and p50, p99, p99.9 of a Flask service on gunicorn and a
FastAPI service on uvicorn, with nothing, with dashcam, with py-spy attached, with ddtrace's profiler and
with OpenTelemetry's instrumentation, in one run.

The server has one CPU to itself (with what records it), wrk with 8 connections the other. Rounds take
turns, and each begins with another variant. A round has two blocks: flat out, which gives throughput and
CPU time a request (of the server, its children and what records them: it says more than throughput where
the machine's host takes CPU away), and at a quarter of what the bare service does, which gives latencies:
flat out they tell the length of the queue.
Needs two CPUs, wrk (Debian), and the venv that `tools/bench_services` makes.

    python bench/services/run.py [--quick] [--service flask|fastapi]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Iterator

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SERVER_CPU, LOAD_CPU = "0", "1"
CONNECTIONS = 8
#: Latencies in us: a script for wrk, since it prints no p99.9 by itself.
LUA = """
done = function(summary, latency, requests)
  io.write(string.format("FIGURES %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""

SERVICES = {
    "flask": ["gunicorn", "--threads", "8", "--log-level", "error", "-b", "127.0.0.1:{port}", "flask_app:app"],
    "fastapi": ["uvicorn", "--log-level", "error", "--no-access-log", "--port", "{port}", "fastapi_app:app"],
}
OTEL = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": "bench",
        "OTEL_PYTHON_LOG_LEVEL": "critical"}
DD_PROFILER = {"DD_PROFILING_ENABLED": "true", "DD_TRACE_ENABLED": "false",
               "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false"}
#: Name -> (words in front of the command, environment).
VARIANTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "nothing": ([], {}),
    "dashcam": (["dashcam", "run", "--slow", "10s", "--service", "bench", "--out", "{out}", "--"], {}),
    "dashcam, switches off": (["dashcam", "run", "--slow", "10s", "--service", "bench", "--out", "{out}", "--"],
                              {"DASHCAM_SWITCHES": "off"}),
    "py-spy 100 Hz": ([], {}),
    "ddtrace profiler": (["ddtrace-run"], DD_PROFILER),
    "OpenTelemetry": (["opentelemetry-instrument"], OTEL),
}


def free_port() -> int:
    """A port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Collector:
    """Takes what OpenTelemetry sends and throws it away: a dead collector would cost its client retries."""

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
            more["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.port}"
        log = open(Path(self.folder.name) / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *command], cwd=HERE, stdout=log, stderr=log,
                                        env={**os.environ, **env, **more}, start_new_session=True)
        self.wait()
        self.spy = None
        if variant.startswith("py-spy"):
            self.spy = self.attach()

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/price/5", timeout=2).read()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        told = (Path(self.folder.name) / "log").read_text(encoding="utf-8")
        raise SystemExit(f"bench: the service did not start: {told[-2000:]}")

    def attach(self) -> "subprocess.Popen[bytes]":
        """py-spy on the process that serves: gunicorn's worker."""
        workers = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        pid = workers[0] if workers else str(self.process.pid)
        return subprocess.Popen(["taskset", "-c", SERVER_CPU, BIN / "py-spy", "record", "--rate", "100", "--format", "raw",
                                 "--duration", "3600", "--output", Path(self.folder.name) / "spy", "--pid", pid],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cpu_s(self) -> float:
        """CPU time of its processes, and of what looks at them, so far."""
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
        for process in filter(None, [self.spy, self.process]):
            if process is self.process:
                os.killpg(process.pid, signal.SIGTERM)
            else:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.folder.cleanup()


def flat_out(port: int, seconds: float, script: Path) -> list[int]:
    """requests, duration us, p50, p99, p99.9 us, errors: of wrk, as fast as it goes."""
    result = subprocess.run(["taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "-s", script,
                             f"http://127.0.0.1:{port}/price/5"], capture_output=True, text=True, check=True)
    found = re.search(r"FIGURES ([\d ]+)", result.stdout)
    if not found:
        raise SystemExit(f"bench: wrk printed no figures: {result.stdout}{result.stderr}")
    return [int(word) for word in found.group(1).split()]


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
took.sort()
at = lambda p: took[min(len(took) - 1, int(len(took) * p))] * 1e3
print(len(took), at(.5), at(.99), at(.999))
'''


def paced(port: int, rate: float, seconds: float) -> list[float]:
    """Requests, p50, p99, p99.9 in ms at a fixed rate, from when each was due: a stall delays those behind it."""
    result = subprocess.run(["taskset", "-c", LOAD_CPU, sys.executable, "-c", PACED, str(port), str(rate), str(seconds),
                             str(CONNECTIONS)], capture_output=True, text=True, check=True)
    return [float(word) for word in result.stdout.split()]


def stolen() -> tuple[int, int]:
    """Ticks that the host took from this machine, and all ticks, so far."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:9]]
    return fields[7], sum(fields)


def turns(rounds: int) -> Iterator[list[str]]:
    """Variants in turn, each round beginning with another one."""
    names = list(VARIANTS)
    for at in range(rounds):
        yield names[at % len(names):] + names[:at % len(names)]


def measure(service: str, rounds: int, seconds: float, script: Path) -> dict[str, dict[str, list[float]]]:
    """All figures of all rounds, by variant."""
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in VARIANTS}
    rate = 0.0
    with Collector() as collector:
        for at, names in enumerate(turns(rounds)):
            for variant in names:
                server = Server(service, variant, collector)
                try:
                    flat_out(server.port, 2, script)
                    before = server.cpu_s()
                    requests, duration, *_, errors = flat_out(server.port, seconds, script)
                    cpu_us = (server.cpu_s() - before) * 1e6 / max(requests, 1)
                    if not rate:
                        rate = requests / duration * 1e6 / 4
                    count, p50, p99, p999 = paced(server.port, rate, seconds)
                finally:
                    server.stop()
                row = figures[variant]
                for key, value in (("req/s", requests / duration * 1e6), ("cpu us", cpu_us), ("p50", p50), ("p99", p99),
                                   ("p99.9", p999), ("errors", errors)):
                    row.setdefault(key, []).append(value)
                print(f"  round {at + 1} of {rounds}: {variant}: {requests / duration * 1e6:.0f} req/s, {cpu_us:.0f} us of CPU each; at "
                      f"{rate:.0f} req/s p50 {p50:.2f} p99 {p99:.2f} p99.9 {p999:.2f} ms", file=sys.stderr, flush=True)
    return figures


def show(service: str, figures: dict[str, dict[str, list[float]]]) -> None:
    """Medians; throughput and CPU as medians of ratios inside a round; the spread of p99.9."""
    print(f"\n{service}: {CONNECTIONS} connections, server and recorder on one CPU")
    print(f"{'':24}{'req/s':>8}{'of nothing':>12}{'CPU us':>9}{'of nothing':>12}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}"
          "   p99.9, least to most")
    bare = figures["nothing"]
    for name, row in figures.items():
        share, cpu = (statistics.median(x / y for x, y in zip(row[key], bare[key])) for key in ("req/s", "cpu us"))
        tail = row["p99.9"]
        middle = {key: statistics.median(values) for key, values in row.items()}
        errors = f"  {sum(row['errors']):.0f} errors" if any(row["errors"]) else ""
        print(f"{name:24}{middle['req/s']:>8.0f}{share:>11.1%} {middle['cpu us']:>9.0f}{cpu:>11.1%} {middle['p50']:>9.2f}"
              f"{middle['p99']:>9.2f}{middle['p99.9']:>10.2f}   {min(tail):.2f} - {max(tail):.2f}{errors}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--service", choices=list(SERVICES), action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("bench: services: found one CPU, wanted two: SKIPPED")
    host, before = stolen()
    rounds, seconds = (1, 2.0) if given.quick else (given.rounds, given.seconds)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(LUA)
        lua.flush()
        every = {}
        for service in given.service or SERVICES:
            every[service] = measure(service, rounds, seconds, Path(lua.name))
            show(service, every[service])
    host, ticks = stolen()[0] - host, stolen()[1] - before
    print(f"\nThe machine's host took {host / max(ticks, 1):.1%} of its CPU meanwhile.")
    if given.json:
        given.json.write_text(json.dumps(every), encoding="utf-8")


if __name__ == "__main__":
    main()
