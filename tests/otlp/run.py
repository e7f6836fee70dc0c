#!/usr/bin/env python3
"""OTLP and Zipkin out, against a real OpenTelemetry Collector and the official schemas.

A service under dashcam sends its slow and failed requests and its metrics to a collector, which is
built from the Go registry (collector/go.mod pins it) into build/otlp and writes what it received
into a file. The file is compared with the service's own counts and with dashcam's accounts. The
exports of a capture are decoded by the official protobuf classes, and posted to the collector.
Without go the collector is SKIPPED; the decoding still runs.

    tests/otlp/run.py [CASE ...]      cases: see CASES
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "tools"))
import limited  # noqa: E402

BUILD = ROOT / "build" / "otlp"
PATIENCE_S = 60.0
# A download from a registry is tried three times; seconds for each.
AGAIN = [str(ROOT / "tools/again"), "900"]
BUILD_S = 3000.0


class Wrong(Exception):
    """What was found and what was wanted."""


def need(holds: object, reported: str) -> None:
    """Ends the case with `reported` unless `holds`."""
    if not holds:
        raise Wrong(reported)


def equal(found: object, wanted: object, what: str) -> None:
    """The same as `need`, for two values."""
    need(found == wanted, f"{what}: found {found!r}, wanted {wanted!r}")


def dashcam() -> str:
    """The command beside this interpreter."""
    return str(Path(sys.executable).parent / "dashcam")


def schemas() -> Path:
    """An environment with the official classes; its Python."""
    python = BUILD / "venv" / "bin" / "python"
    stamp, wanted = BUILD / "requirements.stamp", (HERE / "requirements.txt").read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        BUILD.mkdir(parents=True, exist_ok=True)
        limited.run([sys.executable, "-m", "venv", "--clear", BUILD / "venv"], BUILD_S, check=True)
        pip = [*AGAIN, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        limited.run([*pip, "-r", HERE / "requirements.txt"], BUILD_S, check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def collector() -> Path | None:
    """The collector, built if need be; None without go."""
    if shutil.which("go") is None:
        print("SKIPPED: no go here, so no OpenTelemetry Collector", flush=True)
        return None
    program, stamp = BUILD / "collector", BUILD / "collector.stamp"
    pinned = "".join((HERE / "collector" / name).read_text(encoding="utf-8") for name in ("go.mod", "main.go"))
    if not program.is_file() or not stamp.is_file() or stamp.read_text(encoding="utf-8") != pinned:
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [*AGAIN, "go", "build", "-mod=readonly", "-o", str(program), "."]
        limited.run(command, BUILD_S, cwd=HERE / "collector", check=True)
        stamp.write_text(pinned, encoding="utf-8")
    return program


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Collector:
    """A running collector, and what it received."""

    running: list[subprocess.Popen] = []

    def __init__(self, program: Path, folder: Path, port: int | None = None, tls: Path | None = None) -> None:
        self.port = port or free_port()
        self.tls = tls
        self.folder = folder
        self.log = folder / "collector.log"
        self.files = {signal: folder / f"{signal}.json" for signal in ("traces", "metrics")}
        exporters = "".join(
            f"  file/{signal}:\n    path: {path}\n    append: true\n    flush_interval: 100ms\n"
            for signal, path in self.files.items()
        )
        pipelines = "".join(
            f"    {signal}:\n      receivers: [otlp]\n      exporters: [file/{signal}]\n" for signal in self.files
        )
        # Its own certificate, and the authority whose clients it accepts: the folder's.
        secured = (
            f"        tls:\n          cert_file: {tls}/server.pem\n          key_file: {tls}/server.key\n"
            f"          client_ca_file: {tls}/ca.pem\n"
            if tls
            else ""
        )
        config = folder / "collector.yaml"
        config.write_text(
            f"receivers:\n  otlp:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:{self.port}\n"
            f"{secured}exporters:\n{exporters}service:\n  telemetry:\n    metrics:\n      level: none\n"
            f"  pipelines:\n{pipelines}",
            encoding="utf-8",
        )
        log = self.log.open("ab")
        self.process = subprocess.Popen([program, "--config", config], stdout=log, stderr=log, start_new_session=True)
        self.running.append(self.process)
        end = time.monotonic() + PATIENCE_S
        while True:
            need(self.process.poll() is None, f"the collector ended:\n{self.log.read_text(encoding='utf-8')}")
            need(time.monotonic() < end, "the collector does not listen")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)

    @staticmethod
    @contextlib.contextmanager
    def ended() -> Iterator[None]:
        """Ends the collectors that a failed case left."""
        try:
            yield
        finally:
            for process in Collector.running:
                limited.end(process)
                limited.last_words(process)
            Collector.running.clear()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Ends it; it writes the rest."""
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)

    def lines(self, signal: str) -> Iterator[dict]:
        """What it received, by request."""
        path = self.files[signal]
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []:
            # The last line may still be incomplete.
            if line.endswith("\n"):
                yield json.loads(line)

    def spans(self) -> list[tuple[dict, dict]]:
        """Every span with its resource."""
        return [
            (attributes(resource["resource"]), span)
            for line in self.lines("traces")
            for resource in line["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def points(self) -> list[tuple[dict, dict]]:
        """Every point with its metric."""
        out = []
        for line in self.lines("metrics"):
            for metric in (m for r in line["resourceMetrics"] for s in r["scopeMetrics"] for m in s["metrics"]):
                data = next(metric[kind] for kind in ("sum", "gauge", "histogram", "summary") if kind in metric)
                out += [(metric, point) for point in data["dataPoints"]]
        return out


def attributes(of: dict) -> dict:
    """Attributes as a dict."""
    return {pair["key"]: next(iter(pair["value"].values()), None) for pair in of.get("attributes", [])}


def serve(url: str, folder: Path, *, quick: int = 40, children: int = 0, capture: str = "-", **settings: str) -> list[dict]:
    """Runs the service; returns what its processes report about the exporter."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "DASHCAM_"))}
    env |= {"DASHCAM_OUT": str(folder / "captures"), "DASHCAM_SLOW": "1h, GET /slow*>50ms", "DASHCAM_OTLP": url}
    env |= {"DASHCAM_SERVICE": "billy", "DASHCAM_OTLP_SHARE": "0"} | settings
    command = [sys.executable, str(HERE / "service.py"), str(quick), str(children), capture]
    done = limited.run(command, 300, env=env, capture_output=True, text=True)
    need(done.returncode == 0, f"the service: exit {done.returncode}\n{done.stderr}")
    (folder / "service.err").write_text(done.stderr, encoding="utf-8")
    return json.loads(done.stdout)


def adds_up(reported: dict) -> None:
    """produced = sent + refused + dropped + waiting."""
    for what in ("spans", "points"):
        books = reported[what]
        parts = sum(books[key] for key in ("sent", "refused", "dropped", "waiting"))
        equal(books["produced"], parts, f"{what} of {reported['pid']}: {books}")


def live(program: Path, folder: Path) -> None:
    """Slow and failed requests arrive with their spans; sent = arrived, by process, forked ones
    too.
    """
    running = Collector(program, folder)
    reported = serve(running.url, folder, children=3)
    running.stop()
    spans = running.spans()
    by_pid = Counter(int(resource["process.pid"]) for resource, _ in spans)
    for process in reported:
        adds_up(process)
        equal(by_pid[process["pid"]], process["spans"]["sent"], f"spans of {process['pid']} that arrived, and sent")
        equal(process["chosen_requests"], {"slow": 4, "failed": 2, "share": 0}, "chosen")
        equal(process["records_missed"], 0, "records missed")
    equal(len(by_pid), 4, "processes")
    equal(len({resource["service.instance.id"] for resource, _ in spans}), 4, "service.instance.id")
    names = Counter(re.sub(r"/\w+$", "", span["name"]) for _, span in spans)
    equal(names, {"GET /slow": 16, "GET /failed": 8, "db.query": 24, "db.fetch": 24}, "spans by name")
    resource, _ = spans[0]
    equal(resource["service.name"], "billy", "service.name")
    need(resource["host.name"] and resource["process.runtime.name"] == "cpython", f"resource: {resource}")
    ids = {(span["traceId"], span["spanId"]): span for _, span in spans}
    equal(len(ids), len(spans), "distinct ids")
    for _, span in spans:
        parent = ids.get((span["traceId"], span.get("parentSpanId", "")))
        if span["name"].startswith("GET"):
            equal((parent, span["kind"]), (None, 2), "a root's parent and kind")
            error = span.get("status", {}).get("code", 0) == 2
            equal(error, "failed" in span["name"], f"error of {span['name']}")
            equal(attributes(span)["user"], "42", "user")
        else:
            need(parent is not None, f"{span['name']} has a parent that did not arrive")
            wanted = "db.query" if span["name"] == "db.fetch" else "GET"
            need(parent["name"].startswith(wanted), f"{span['name']} below {parent['name']}")
            need(int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]), "begins before its parent")
            need(int(parent["endTimeUnixNano"]) >= int(span["endTimeUnixNano"]), "ends behind its parent")
        if span["name"] == "db.query":
            found = attributes(span)
            equal((found["rows"], found["cached"], found["share"], found["table"]), ("3", False, 0.5, "orders"), "attributes")
            equal([event["name"] for event in span["events"]], ["cache.miss"], "events")
        age_s = time.time() - int(span["endTimeUnixNano"]) / 1e9
        need(-1 < age_s < 600, f"{span['name']} ended {age_s:.0f} s ago")


def metrics(program: Path, folder: Path) -> None:
    """Counters, gauges and timings arrive with the counted values; as deltas if requested."""
    for preference in ("cumulative", "delta"):
        below = folder / preference
        below.mkdir()
        running = Collector(program, below)
        environment = {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": preference}
        reported = serve(running.url, below, **environment)
        running.stop()
        adds_up(reported[0])
        found: dict[str, list] = {}
        for metric, point in running.points():
            found.setdefault(metric["name"], []).append((metric, point))
        # Spans after `flush` are sent at the end of the process, and are in no status.
        arrived = sum(len(points) for points in found.values())
        need(arrived >= reported[0]["points"]["sent"], f"{arrived} points arrived, {reported[0]['points']} reported")
        metric, point = found["orders"][-1]
        need(metric["sum"].get("isMonotonic"), f"orders: {metric}")
        equal(metric["sum"]["aggregationTemporality"], 2 if preference == "cumulative" else 1, "temporality")
        values = [int(point.get("asInt", point.get("asDouble", 0))) for _, point in found["orders"]]
        total = values[-1] if preference == "cumulative" else sum(values)
        equal((total, attributes(point)), (80, {"shop": "parent"}), "orders")
        equal(found["depth"][-1][1]["asDouble"], 7.5, "depth")
        metric, point = found["price"][0]
        equal((metric["unit"], int(point["count"]), point["sum"]), ("ms", 2, 612.5), "price")
        equal(sum(int(count) for count in point["bucketCounts"]), 2, "buckets of price")
        equal((point["min"], point["max"]), (12.5, 600.0), "range of price")


def away(program: Path, folder: Path) -> None:
    """A collector that comes back gets the waiting spans; sent = arrived, and the accounts add
    up.
    """
    running = Collector(program, folder)
    port = running.port
    running.stop()
    env = {"DASHCAM_OTLP_SHARE": "100"}
    gone = serve(running.url, folder, **env)[0]
    adds_up(gone)
    equal((gone["spans"]["sent"], gone["down"]), (0, True), "sent to nobody")
    need(gone["spans"]["waiting"] > 0 and gone["retried"] > 0, f"nothing waits: {gone}")
    again = Collector(program, folder, port)
    back = serve(again.url, folder, **env)[0]
    again.stop()
    adds_up(back)
    equal(len(again.spans()), back["spans"]["sent"], "spans that arrived")
    # 46 requests of three spans each.
    equal(back["spans"]["sent"], 46 * 3, "spans sent at a share of 100 %")


def refused(program: Path, folder: Path) -> None:
    """TLS and invalid values are refused with the remedy; the service continues."""
    del program
    for url, wanted in [("https://127.0.0.1:1", "collector beside the service"), ("localhost:4318", "http://HOST:PORT")]:
        reported = serve(url, folder, quick=1)
        equal(reported[0].get("spans"), None, "an exporter")
        said = (folder / "service.err").read_text(encoding="utf-8")
        need(wanted in said, f"{url}: said {said!r}, wanted {wanted!r}")


def whole_capture(program: Path | None, folder: Path) -> None:
    """The exports of a capture: the official classes know every field; the posted spans are the
    same.
    """
    capture = folder / "made.dashcam"
    serve("off", folder, capture=str(capture))
    ids: dict[str, set] = {}
    for form in ("otlp", "otlp-metrics", "zipkin"):
        out = folder / form
        limited.run([dashcam(), "export", capture, "--to", form, "-o", out], PATIENCE_S, check=True)
        need(out.stat().st_size > 100, f"{form}: {out.stat().st_size} bytes")
        checked = limited.run([schemas(), HERE / "decode.py", form, out], PATIENCE_S, capture_output=True, text=True)
        need(checked.returncode == 0, f"{form}: {checked.stdout}{checked.stderr}")
        ids[form] = {tuple(row) for row in json.loads(checked.stdout)}
    equal(len(ids["otlp"] ^ ids["zipkin"]), 0, "spans that only one of OTLP and Zipkin has")
    names = Counter(name for *_, name in ids["otlp"])
    equal((names["GET /quick/parent"], names["GET /slow/parent"], names["db.fetch"]), (40, 4, 46), "spans by name")
    need(any(name.startswith("wait: ") for name in names), f"no waits: {names}")
    if program is None:
        return
    running = Collector(program, folder)
    command = [dashcam(), "export", str(capture), "--to", "otlp", "--post", running.url]
    done = limited.run(command, PATIENCE_S, capture_output=True, text=True)
    running.stop()
    equal((done.returncode, done.stderr), (0, ""), "exit and stderr of --post")
    posted = {(s["traceId"], s["spanId"], s.get("parentSpanId", ""), s["name"]) for _, s in running.spans()}
    equal(posted, ids["otlp"], "spans posted and exported")
    need(f"{len(posted)} spans in 2 requests" in done.stdout, done.stdout)
    need(f"{len(running.points())} points" in done.stdout, done.stdout)
    done = limited.run(command, PATIENCE_S, capture_output=True, text=True)
    need(done.returncode == 2 and "wanted a collector" in done.stderr, f"nobody there: {done}")


def authority(folder: Path) -> Path:
    """An authority and its certificates: for 127.0.0.1, and for a client."""
    folder.mkdir()

    def openssl(*words: object) -> None:
        limited.run(["openssl", *map(str, words)], PATIENCE_S, cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests")
    for name, more in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
        (folder / f"{name}.ext").write_text(f"basicConstraints=CA:FALSE\n{more}\n", encoding="utf-8")
        openssl("req", *key[:-2], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return folder


def secured(program: Path, folder: Path) -> None:
    """A capture goes by TLS to a collector that requires a client certificate; no certificate is
    trusted by default.
    """
    capture = folder / "made.dashcam"
    serve("off", folder, capture=str(capture))
    keys = authority(folder / "keys")
    running = Collector(program, folder, tls=keys)
    prefix = "OTEL_EXPORTER_OTLP_"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    trusted = {prefix + "CERTIFICATE": str(keys / "ca.pem")}
    known = {prefix + "CLIENT_CERTIFICATE": str(keys / "client.pem"), prefix + "CLIENT_KEY": str(keys / "client.key")}
    command = [dashcam(), "export", str(capture), "--to", "otlp", "--post", running.url]

    def post(env: dict[str, str], to: list[str] = command) -> subprocess.CompletedProcess[str]:
        return limited.run(to, 120, env=clean | env, capture_output=True, text=True)

    wrong_name = [*command[:-1], running.url.replace("127.0.0.1", "localhost")]
    for env, to, wanted in [
        ({}, command, "UnknownIssuer"),
        (trusted, command, "ertificate"),
        (trusted | known, wrong_name, "not valid for name"),
        (trusted | {prefix + "CLIENT_KEY": str(keys / "client.key")}, command, "without its other half"),
        ({prefix + "CERTIFICATE": str(folder / "none.pem")}, command, prefix + "CERTIFICATE: found"),
    ]:
        done = post(env, to)
        need(done.returncode == 2 and wanted in done.stderr, f"wanted {wanted!r} and exit 2, found {done}")
    equal(running.spans(), [], "spans of those that were not let in")
    done = post(trusted | known)
    running.stop()
    equal((done.returncode, done.stderr), (0, ""), "exit and stderr of --post by TLS")
    need(f"{len(running.spans())} spans in 2 requests to https://" in done.stdout, done.stdout)
    need(f"{len(running.points())} points" in done.stdout, done.stdout)
    # By the system's authorities, which SSL_CERT_FILE replaces.
    again = Collector(program, folder, tls=keys)
    done = post(known | {"SSL_CERT_FILE": str(keys / "ca.pem")}, [*command[:-1], again.url])
    again.stop()
    equal((done.returncode, done.stderr), (0, ""), "exit and stderr of --post by SSL_CERT_FILE")


CASES = {"live": live, "metrics": metrics, "away": away, "refused": refused, "whole capture": whole_capture, "secured": secured}


def main() -> int:
    """Runs the cases; prints each."""
    wanted, failed = sys.argv[1:] or list(CASES), 0
    program = collector()
    for name in wanted:
        if program is None and name in ("live", "metrics", "away", "secured"):
            continue
        with tempfile.TemporaryDirectory() as folder, Collector.ended():
            try:
                CASES[name](program, Path(folder))
                print(f"otlp: {name}: ok", flush=True)
            except (Wrong, subprocess.SubprocessError, LookupError, ValueError) as wrong:
                failed += 1
                print(f"otlp: {name}: FAILED: {type(wrong).__name__}: {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
