"""The measured programs: how each is built and run, or why it is left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RIVALS = ROOT / "bench" / "rivals"
# Ways to measure a recorder, and all ways.
WAYS = ("calls", "churn", "snapshot")
ALL_WAYS = (*WAYS, "metrics")


@dataclass(frozen=True)
class Program:
    """One recorder in one program. `counted`: it can be first; the others are limits and parts."""

    name: str
    title: str
    command: tuple[str, ...]
    ways: tuple[str, ...] = WAYS
    counted: tuple[str, ...] = WAYS
    note: str = ""
    env: "dict[str, str]" = field(default_factory=dict)


# Name, title, crate whose version is shown, ways, ways in which it can be first, note.
RUST: "list[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]]" = [
    ("dashcam", "dashcam", "", WAYS, WAYS, ""),
    ("plain", "limit: two rdtsc + 32-byte record", "", WAYS, (),
     "no switch, no names, no reader: no recorder, the least one can cost; its dump is a bare copy"),
    ("tracing-trivial", "tracing, registry + trivial layer", "tracing", ("calls",), (),
     "records nothing: the least a user of layers pays"),
    ("tracing-recording", "tracing, registry + recording layer", "tracing", WAYS, ("calls", "churn"),
     "a minimal layer of this bench, stamping with rdtsc; its dump is the limit's"),
    ("tracing-bare", "tracing, bare subscriber", "tracing", WAYS, ("calls", "churn"),
     "a minimal subscriber of this bench, stamping with rdtsc: no layers, filters or spans that "
     "change threads; its dump is the limit's"),
    ("tracing-flight-recorder", "tracing-flight-recorder", "tracing-flight-recorder", WAYS, WAYS,
     "records events only; its span rows record nothing and do not count"),
    ("fastrace", "fastrace", "fastrace", ("calls", "churn"), WAYS, "attributes are texts; no dump"),
    ("tracy", "Tracy client", "tracy-client", ("calls", "churn"), WAYS,
     "no viewer, not on demand; an event is a plot point; cannot be off; no dump"),
    ("backbeat", "backbeat", "backbeat", WAYS, WAYS, ""),
    ("opentelemetry", "OpenTelemetry SDK (Rust)", "opentelemetry_sdk", ("calls",), WAYS,
     "a processor that drops; no events outside spans, no dump"),
]

# Clients that count: name, title, crate whose version is shown, note.
CLIENTS: "list[tuple[str, str, str, str]]" = [
    ("dashcam", "dashcam", "", "the recorder on as by default, and its StatsD sink"),
    ("dashcam-facade", "metrics facade, over dashcam", "", "by name is its macro; ours too"),
    ("metrics-prometheus", "metrics facade, Prometheus recorder", "metrics-exporter-prometheus",
     "by name is the macro; sends nothing"),
    ("cadence-udp", "cadence, UDP", "cadence", "a datagram a call"),
    ("cadence-buffered", "cadence, buffered UDP", "cadence", "lines packed under a lock"),
    ("cadence-queuing", "cadence, queue + UDP", "cadence", "a thread sends a datagram a line; queue without bound"),
    ("cadence-queuing-buffered", "cadence, queue + buffered UDP", "cadence", "a thread packs; queue without bound"),
    ("prometheus", "prometheus", "prometheus", "the tag is with_label_values; sends nothing"),
    ("prometheus-client", "prometheus-client", "prometheus-client", "the tag is Family::get_or_create; sends nothing"),
    ("opentelemetry", "OpenTelemetry SDK (Rust)", "opentelemetry_sdk",
     "a reader is there and does not read; the tag is a KeyValue made at each call; sends nothing"),
]


def locked(crate: str) -> str:
    """Version of a crate in the bench's lock file."""
    text = (ROOT / "bench" / "Cargo.lock").read_text(encoding="utf-8")
    found = re.search(rf'name = "{re.escape(crate)}"\nversion = "([^"]+)"', text)
    return found.group(1) if found else ""


def output(*command: str) -> str:
    """A command's output, both streams."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def built(*command: str, cwd: Path) -> str:
    """Runs a build; empty on success, else the last lines of its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else " / ".join((done.stdout + done.stderr).split("\n")[-4:])


def rust(binary: Path) -> "list[Program]":
    """Dashcam and the compared tools in Rust."""
    programs = []
    for name, title, crate, ways, counted, note in RUST:
        title = f"{title} {locked(crate)}" if crate else title
        for way in ways:
            command = (str(binary), "run", way, name)
            if (name, way) == ("dashcam", "churn"):
                programs += churn_of_ours(command)
            else:
                programs.append(Program(name, title, command, (way,), counted, note))
    limits = (str(binary), "run", "calls", "limits")
    programs.append(Program("limits", "limits", limits, ("calls",), ()))
    for name, title, crate, note in CLIENTS:
        title = f"{title} {locked(crate)}" if crate else title
        command = (str(binary), "run", "metrics", name)
        # Two variants of dashcam cannot both be first.
        counted = () if name == "dashcam-facade" else ("metrics",)
        programs.append(Program(name, title, command, ("metrics",), counted, note))
    big = {"BENCH_RING_MIB": "1024"}
    command = (str(binary), "run", "snapshot", "dashcam")
    programs.append(Program("dashcam-1GiB", "dashcam, 1 GiB", command, ("snapshot",), (), "", big))
    turns = {"BENCH_TURNS": "1"}
    command = (str(binary), "run", "snapshot", "plain")
    note = "a bare copy to a file in turns of 80 us, as dashcam's: what these bytes cost others at half a CPU"
    programs.append(Program("plain-turns", "limit: a bare copy in turns", command, ("snapshot",), (), note, turns))
    return programs


def churn_of_ours(command: "tuple[str, ...]") -> "list[Program]":
    """The recorder in the same role as the compared recorders; and with the kernel's records of
    every switch, which are on by default and which the others do not have."""
    # A difference of three percent in threads/s must be visible: dashcam is measured longer than
    # the others.
    env = {"BENCH_CHURN_TURNS": "4"}
    off = {**env, "DASHCAM_SWITCHES": "off"}
    # A lasting burst of thread creation: after its first second the records pause
    # (docs/decisions/0014).
    on = {**env, "DASHCAM_SWITCHES": "on", "BENCH_CHURN_STORM_MS": "1700"}
    alone = Program("dashcam", "dashcam, recorder and sampler", command, ("churn",), WAYS, "", off)
    title = "dashcam, and the kernel's switch records"
    note = "the default; a burst that lasts: after its first second switch records pause"
    return [alone, Program("dashcam-switches", title, command, ("churn",), (), note, on)]


def lttng(folder: Path) -> "tuple[list[Program], str]":
    """LTTng-UST, if it is installed."""
    for tool in ("cc", "lttng", "lttng-sessiond"):
        if not shutil.which(tool):
            return [], f"LTTng-UST: {tool} is not installed (lttng-tools, liblttng-ust-dev)"
    source, binary = RIVALS / "lttng", folder / "lttng-bench"
    failed = built("cc", "-O2", "-I", str(source), str(source / "bench.c"), "-o", str(binary),
                   "-llttng-ust", "-ldl", "-lpthread", cwd=source)
    if failed:
        return [], f"LTTng-UST: does not build (liblttng-ust-dev): {failed}"
    found = re.search(r"[\d.]+", output("lttng", "--version"))
    title = f"LTTng-UST {found.group(0) if found else ''}"
    note = "C; one ring a core, snapshot session; a span is two tracepoints; its snapshot is a command"
    programs = [Program("lttng", title, (str(binary), way), (way,), WAYS, note) for way in WAYS]
    return programs, ""


def jfr(folder: Path) -> "tuple[list[Program], str]":
    """JFR of the installed JDK."""
    if not (shutil.which("java") and shutil.which("javac")):
        return [], "JFR: no JDK (java and javac)"
    failed = built("javac", "-d", str(folder / "jfr"), str(RIVALS / "jfr" / "Bench.java"), cwd=ROOT)
    if failed:
        return [], f"JFR: does not build: {failed}"
    found = re.search(r'version "([^"]+)"', output("java", "-version"))
    title = f"JFR, JDK {found.group(1) if found else ''}"
    repository = f"-XX:FlightRecorderOptions=repository={folder / 'jfr-repository'}"
    command = ("java", repository, "-cp", str(folder / "jfr"), "Bench")
    note = ("Java; after warming up, not pinned, without stack traces; chunks on disk, the last 64 MiB; of "
            "one that lies in memory a dump does not end while somebody writes flat out")
    return [Program("jfr", title, (*command, way), (way,), WAYS, note) for way in WAYS], ""


def go(folder: Path) -> "tuple[list[Program], str]":
    """Go's FlightRecorder."""
    if not shutil.which("go"):
        return [], "Go FlightRecorder: no go"
    binary = folder / "go-bench"
    failed = built("go", "build", "-o", str(binary), ".", cwd=RIVALS / "go")
    if failed:
        return [], f"Go FlightRecorder: does not build (needs Go 1.25): {failed}"
    found = re.search(r"go([\d.]+)", output("go", "version"))
    title = f"Go {found.group(1) if found else ''} FlightRecorder"
    note = "Go; not pinned; a region and a log of the integer; churn starts goroutines, not threads"
    return [Program("go", title, (str(binary), way), (way,), WAYS, note) for way in WAYS], ""


class LttngSession:
    """A session in snapshot mode with a ring of `64 MiB / cores` for each core, and its daemon."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.env = {"LTTNG_HOME": str(out), "BENCH_SESSION": "dashcam-bench"}
        self.daemon: "subprocess.Popen[bytes] | None" = None

    def lttng(self, *words: str) -> int:
        """One command of the control tool."""
        command = ("lttng", "--no-sessiond", "-q", *words)
        return subprocess.run(command, env={**os.environ, **self.env}, check=False, timeout=60,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def __enter__(self) -> "LttngSession":
        if self.lttng("list") != 0:
            env = {**os.environ, **self.env}
            self.daemon = subprocess.Popen(("lttng-sessiond", "--no-kernel"), env=env,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                if self.lttng("list") == 0:
                    break
        (self.out / "lttng").mkdir(exist_ok=True)
        cores = len(os.sched_getaffinity(0))
        subbuffer_bytes = 1 << ((64 << 20) // cores // 8).bit_length() - 1
        session = self.env["BENCH_SESSION"]
        self.lttng("destroy", session)
        self.lttng("create", session, "--snapshot", f"--output={self.out / 'lttng'}")
        self.lttng("enable-channel", "-u", "-s", session, "--overwrite", f"--subbuf-size={subbuffer_bytes}",
                   "--num-subbuf=8", "ring")
        self.lttng("enable-event", "-u", "-s", session, "-c", "ring", "bench:*")
        self.lttng("start", session)
        return self

    def __exit__(self, *_: object) -> None:
        self.lttng("destroy", self.env["BENCH_SESSION"])
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=20)
