#!/usr/bin/env python3
"""The StatsD sink against real servers: npm's `statsd` and Prometheus' `statsd_exporter`, both
pinned, installed into build/statsd. Windows go through crates/statsd's example `send`; the server's
own report is compared value by value. Prints a line for each case; 0 if all are right.

    tests/statsd/run.py [CASE ...]      cases: see CASES

Needs cargo, node with npm; go for statsd_exporter, which is skipped without it. Servers listen on
127.0.0.1 at free ports.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import limited  # noqa: E402

BUILD = ROOT / "build/statsd"
NPM_STATSD = "0.9.0"
EXPORTER = "v0.31.0"
PATIENCE_S = 30.0
# A download from a registry is tried three times.
AGAIN = [str(ROOT / "tools/again"), "600"]


class Failed(Exception):
    """One line of progress."""


def run(command: list[str], **options: object) -> str:
    """The output of a command that must succeed."""
    try:
        done = limited.run(command, 2400, capture_output=True, text=True, **options)
    except limited.Late as late:
        raise Failed(str(late)) from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def install() -> None:
    """The servers and the sender."""
    lacking = [tool for tool in ("cargo", "node", "npm") if shutil.which(tool) is None]
    if lacking:
        raise Failed(f"statsd: found no {', '.join(lacking)}; wanted them installed")
    package = BUILD / "npm/node_modules/statsd/package.json"
    if not package.exists() or f'"version": "{NPM_STATSD}"' not in package.read_text(encoding="utf-8"):
        (BUILD / "npm").mkdir(parents=True, exist_ok=True)
        (BUILD / "npm/package.json").write_text('{"private": true}\n', encoding="utf-8")
        options = ["--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
        run([*AGAIN, "npm", "install", *options, f"statsd@{NPM_STATSD}"], cwd=BUILD / "npm")
    stamp = BUILD / "bin/statsd_exporter.version"
    if not shutil.which("go"):
        print("SKIPPED: no go here, so no statsd_exporter", flush=True)
    elif not stamp.exists() or stamp.read_text(encoding="utf-8") != EXPORTER:
        module = f"github.com/prometheus/statsd_exporter@{EXPORTER}"
        run([*AGAIN, "go", "install", module], env=os.environ | {"GOBIN": str(BUILD / "bin")})
        stamp.write_text(EXPORTER, encoding="utf-8")
    run(["cargo", "build", "--quiet", "-p", "dashcam-statsd", "--example", "send"], cwd=ROOT)


def sender() -> Path:
    """The example that was built."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/examples/send"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A free port."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(what: str, ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Returns when `ready` does; fails if the server dies or nothing happens for long."""
    end = time.monotonic() + PATIENCE_S
    while not ready():
        if process.poll() is not None:
            raise Failed(f"the server ended with {process.returncode} before {what}")
        if time.monotonic() > end:
            raise Failed(f"waited {PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(0.05)


def stopped(server: subprocess.Popen[bytes]) -> bytes:
    """Ends a server, by force if need be; returns its output."""
    server.terminate()
    try:
        return server.communicate(timeout=PATIENCE_S)[0] or b""
    except subprocess.TimeoutExpired:
        server.kill()
        raise Failed(f"the server did not end within {PATIENCE_S:.0f} s of SIGTERM") from None


def send(plan: str, environment: dict[str, str]) -> dict[str, str]:
    """Sends a plan; returns the sink's report about it."""
    said = run([str(sender())], input=plan, env={"PATH": os.environ["PATH"]} | environment)
    return dict(line.split(" ", 1) for line in said.splitlines())


def compare(found: dict[str, float], wanted: dict[str, float]) -> None:
    """Value by value; one part in a thousand million off is a rounding of the server's."""
    for name, value in wanted.items():
        if name not in found:
            near = [have for have in sorted(found) if name.split("{")[0][:6] in have]
            raise Failed(f"{name}: the server has none, wanted {value}; it has {near}")
        if abs(found[name] - value) > 1e-9 * max(1.0, abs(value)):
            raise Failed(f"{name}: the server says {found[name]}, wanted {value}")


class Graphite:
    """The target of npm's statsd: the text form of carbon."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.sums: dict[str, float] = {}
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """One connection for each flush."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("r", encoding="utf-8") as lines:
                flush = [line.split(" ") for line in lines]
            with self.lock:
                for name, value, _at in flush:
                    self.last[name] = float(value)
                    self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def values(self) -> dict[str, float]:
        """The last value of gauges, everything else summed over all flushes."""
        with self.lock:
            gauges = {name: value for name, value in self.last.items() if ".gauges." in name}
            return self.sums | gauges


# Plain StatsD: what both servers can report. Tabs between fields.
COUNTERS = "counter\torders\t5\ncounter\torders\t2.5\ncounter\tbig\t123456789012\n"
GAUGES = "gauge\tdepth\t7\ngauge\tcold\t-12.5\ngauge\twalk\t10\nwindow\ndelta\twalk\t-4\ndelta\twalk\t1.25\n"
TIMINGS = "timing\tprice\t10,20.5,30\ntiming\tkept\t1,2,3/10\ndistribution\tsize\t100,300/20\n"
MANY = "".join(f"counter\tmany.{n}\t{n}\n" for n in range(2000))
NASTY = "counter\twith:odd|signs@in it\t3\n"


def npm_statsd() -> str:
    """Counters, gauges with resets and deltas, timings with a rate, sets, odd names."""
    graphite = Graphite()
    port, management = free_port(socket.SOCK_DGRAM), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.js"
        config.write_text(
            f"""{{ address: "127.0.0.1", port: {port}, mgmt_address: "127.0.0.1", mgmt_port: {management},
            graphiteHost: "127.0.0.1", graphitePort: {graphite.port}, flushInterval: 500,
            deleteIdleStats: true, deleteGauges: false, backends: ["./backends/graphite"],
            graphite: {{ legacyNamespace: false }} }}""",
            encoding="utf-8",
        )
        server = subprocess.Popen(
            ["node", "stats.js", str(config)], cwd=BUILD / "npm/node_modules/statsd",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        try:
            wait_until("its first flush", lambda: bool(graphite.values()), server)
            sets = "set\tusers\tann,bob,b:o|b\n"
            said = send(
                COUNTERS + GAUGES + TIMINGS + sets + NASTY + MANY,
                {"DASHCAM_STATSD": f"udp://127.0.0.1:{port}", "STATSD_IMPLEMENTATION": "statsd",
                 "STATSD_PREFIX": "app", "STATSD_DEFAULT_TAGS": "not:sent"},
            )
            received = "stats.counters.statsd.metrics_received.count"
            lines = float(said["sent.lines"])
            wait_until("all lines", lambda: graphite.values().get(received, 0) >= lines, server)
            found = graphite.values()
        finally:
            output = stopped(server).decode()
            graphite.listener.close()
    if "Bad line" in output:
        raise Failed(f"npm statsd: {output}")
    many = {f"stats.counters.app.many.{n}.count": float(n) for n in range(1, 2000)}
    compare(found, many | {
        received: lines,
        "stats.counters.statsd.packets_received.count": float(said["sent.packets"]),
        "stats.counters.statsd.bad_lines_seen.count": 0.0,
        "stats.counters.app.orders.count": 7.5,
        "stats.counters.app.big.count": 123456789012.0,
        "stats.counters.app.with_odd_signs_in_it.count": 3.0,
        "stats.gauges.app.depth": 7.0,
        "stats.gauges.app.cold": -12.5,
        "stats.gauges.app.walk": 7.25,
        "stats.timers.app.price.count": 3.0,
        "stats.timers.app.price.sum": 60.5,
        "stats.timers.app.kept.count": 10.0,
        "stats.timers.app.kept.upper": 3.0,
        "stats.timers.app.size.count": 20.0,
        "stats.timers.app.size.mean": 200.0,
        "stats.sets.app.users.count": 3.0,
        "stats.counters.dashcam.statsd.lines.produced.count": float(said["produced.lines"]) - own_last(found),
    })
    return f"{lines:.0f} lines in {said['sent.packets']} packets, {len(many) + 17} values compared"


def own_last(found: dict[str, float]) -> float:
    """Lines of the one report that closing makes, which cannot include itself. Its counters, and
    two gauges."""
    own = [name for name in found if name.startswith("stats.counters.dashcam.statsd.") and name.endswith(".count")]
    return len(own) + 2.0


def exporter(plan: str, wanted: dict[str, float], over: str, environment: dict[str, str]) -> str:
    """Runs statsd_exporter, sends it a plan, compares its page."""
    with tempfile.TemporaryDirectory() as folder:
        port, page = free_port(socket.SOCK_DGRAM), free_port()
        path = f"{folder}/gram.sock"
        server = subprocess.Popen(
            [str(BUILD / "bin/statsd_exporter"), f"--web.listen-address=127.0.0.1:{page}",
             f"--statsd.listen-udp=127.0.0.1:{port}", "--statsd.listen-tcp=",
             f"--statsd.listen-unixgram={path}", "--log.level=error"],
        )
        target = f"udp://127.0.0.1:{port}" if over == "udp" else f"unix://{path}"
        try:
            wait_until("its page", lambda: bool(metrics(page)), server)
            wait_until("its socket", lambda: os.path.exists(path), server)
            said = send(plan, {"DASHCAM_STATSD": target} | environment)
            lines = float(said["sent.lines"])
            received = "statsd_exporter_lines_total"
            wait_until("all lines", lambda: metrics(page).get(received, 0.0) >= lines, server)
            # It shows events every 200 ms, or every thousand.
            key, value = next(iter(wanted.items()))
            wait_until("the last events", lambda: metrics(page).get(key) == value, server)
            found = metrics(page)
        finally:
            stopped(server)
    packets = "statsd_exporter_udp_packets_total" if over == "udp" else "statsd_exporter_unixgram_packets_total"
    compare(found, wanted | {received: lines, packets: float(said["sent.packets"])})
    errors = [n for n, v in found.items() if re.match(r"statsd_exporter_.*(error|conflict)", n) and v > 0]
    if errors:
        raise Failed(f"statsd_exporter counts {errors}")
    return f"{lines:.0f} lines in {said['sent.packets']} packets, {len(wanted) + 2} values compared"


def metrics(port: int) -> dict[str, float]:
    """The exporter's page; empty while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            text = page.read().decode()
    except OSError:
        return {}
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


DOG = (
    COUNTERS + MANY
    + "counter\thits\t4\troute=/a:b,env=test\ncounter\thits\t6\troute=/c,env=test\n"
    + "gauge\tdepth\t7\ngauge\twalk\t10\nwindow\ndelta\twalk\t-4\ndelta\twalk\t1.25\n"
    + "timing\tprice\t1000,2000.5\nhistogram\twait\t1,2,3/10\n"
    + "distribution\tsize\t" + ",".join(str(n / 2) for n in range(5000)) + "\n"
)


def dog_values() -> dict[str, float]:
    """The value that arrives last comes first: the page is complete once it is right."""
    # The last lines first: the page is complete once they are right.
    return {
        'size_sum{service="billy"}': sum(n / 2 for n in range(5000)),
        'size_count{service="billy"}': 5000.0,
        'orders{service="billy"}': 7.5,
        'big{service="billy"}': 123456789012.0,
        'hits{env="test",route="/a:b",service="billy"}': 4.0,
        'hits{env="test",route="/c",service="billy"}': 6.0,
        'depth{service="billy"}': 7.0,
        'walk{service="billy"}': 7.25,
        'price_sum{service="billy"}': 3.0005,
        'price_count{service="billy"}': 2.0,
        'wait_count{service="billy"}': 10.0,
        'wait_sum{service="billy"}': 1 * 3 + 2 * 3 + 3 * 4.0,
    } | {f'many_{n}{{service="billy"}}': float(n) for n in range(2000)}


def exporter_udp() -> str:
    """DogStatsD over UDP: tags, packed values, rates, gauges that moved by deltas."""
    return exporter(DOG, dog_values(), "udp", {"DD_SERVICE": "billy", "DD_ORIGIN_DETECTION_ENABLED": "no"})


def exporter_unix() -> str:
    """The same over a unix socket, with a timestamp on every counter and gauge."""
    environment = {"DD_SERVICE": "billy", "DD_ORIGIN_DETECTION_ENABLED": "no", "DASHCAM_STATSD_TIMESTAMPS": "on"}
    return exporter(DOG, dog_values(), "unix", environment)


def exporter_plain() -> str:
    """Plain StatsD: gauges below zero and deltas as that server reads them."""
    wanted = {
        "app_size_count": 20.0, "app_size_sum": 4.0, "app_orders": 7.5, "app_depth": 7.0, "app_cold": -12.5,
        "app_walk": 7.25, "app_price_sum": 0.0605, "app_kept_count": 10.0, "app_with_odd_signs_in_it": 3.0,
    }
    environment = {"STATSD_IMPLEMENTATION": "statsd", "STATSD_PREFIX": "app"}
    return exporter(COUNTERS + GAUGES + NASTY + TIMINGS, wanted, "udp", environment)


CASES: dict[str, Callable[[], str]] = {
    "npm-statsd": npm_statsd,
    "exporter-udp": exporter_udp,
    "exporter-unix": exporter_unix,
    "exporter-plain": exporter_plain,
}


def main(wanted: list[str]) -> int:
    """Runs the named cases, or all."""
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        print(f"statsd: no case {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    failed = 0
    try:
        install()
    except Failed as why:
        print(f"statsd: {why}", file=sys.stderr)
        return 1
    runs = [n for n in wanted or CASES if shutil.which("go") or not n.startswith("exporter")]
    for name in runs:
        try:
            print(f"{name:<16}ok: {CASES[name]()}", flush=True)
        except (Failed, subprocess.SubprocessError) as why:
            failed += 1
            print(f"{name:<16}FAILED: {why}", flush=True)
    print(f"statsd: {len(runs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
