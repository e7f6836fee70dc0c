#!/usr/bin/env python3
"""Exports of real captures, opened by the tools they are for.

How it works: two small programs run under `dashcam run`. Their captures are exported in every
format and checked by `go tool pprof`, by speedscope's published JSON schema, and by Perfetto's
official protobuf classes. The exports are compared with the programs' own measurements. Then wrong
input must be refused. Schemas are downloaded once, pinned, into build/export.

Missing: it does not open ui.perfetto.dev or run trace_processor, whose binary comes from a server
that builds may not reach. Ids, nesting and order are checked here instead.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "tools"))
import limited  # noqa: E402

BUILD = ROOT / "build" / "export"
SPEEDSCOPE = "speedscope@1.25.0"
FORMATS = ("pprof", "folded", "speedscope", "chrome", "perfetto")


# For each command; the slowest installs packages.
LIMIT_S = 600.0
# A download from a registry is tried three times.
AGAIN = [str(ROOT / "tools/again"), "180"]


class Wrong(Exception):
    """A value in an export and the wanted value."""


def need(holds: object, reported: str) -> None:
    """Ends the check with `reported` unless `holds`."""
    if not holds:
        raise Wrong(reported)


def near(found: float, wanted: float, what: str) -> None:
    """Both are measured in the same run. The slack is for time that a busy machine kept the sampler
    from a CPU: that time is reported as not sampled or belongs to the next stack."""
    need(abs(found - wanted) <= 0.03 * wanted + 0.1, f"{what}: found {found:.3f} s, wanted {wanted:.3f} s")


def run(words: list, **options: object) -> subprocess.CompletedProcess:
    """Runs a command to its end, or to its limit."""
    return limited.run(words, LIMIT_S, **options)


def tools() -> Path:
    """An environment with the official schemas; its Python."""
    python = BUILD / "venv" / "bin" / "python"
    stamp, wanted = BUILD / "requirements.stamp", (HERE / "requirements.txt").read_text()
    if not stamp.is_file() or stamp.read_text() != wanted:
        BUILD.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", "--clear", BUILD / "venv"], check=True)
        pip = [*AGAIN, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return python


def speedscope_schema() -> Path:
    """The schema from speedscope's package."""
    folder = BUILD / SPEEDSCOPE.replace("@", "-")
    schema = folder / "package" / "dist" / "release" / "file-format-schema.json"
    if not schema.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run([*AGAIN, "npm", "pack", "--silent", SPEEDSCOPE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        run(["tar", "xzf", next(folder.glob("*.tgz")).name], cwd=folder, check=True)
    return schema


def recorded(program: str, folder: Path, **settings: str) -> dict:
    """Runs a program under dashcam; returns its output."""
    env = os.environ | {"DASHCAM_OUT": str(folder), "DASHCAM_POST": "100ms"} | settings
    command = [dashcam(), "run", "--slow", "50ms" if program == "on_a_loop.py" else "1h", "--", sys.executable]
    done = run([*command, HERE / program], env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def dashcam() -> str:
    """The command beside this interpreter."""
    return str(Path(sys.executable).parent / "dashcam")


def export(capture: str, to: str, *more: str) -> bytes:
    """The output of `dashcam export` to a pipe."""
    command = [dashcam(), "export", capture, "--to", to, *more]
    return run(command, stdout=subprocess.PIPE, check=True).stdout


# ---- pprof


class Pprof:
    """The output of `go tool pprof -raw` for a file."""

    def __init__(self, path: Path) -> None:
        env = os.environ | {"PPROF_TMPDIR": str(path.parent)}
        command = ["go", "tool", "pprof", "-raw", str(path)]
        self.text = run(command, env=env, capture_output=True, check=True, text=True).stdout
        head, rest = self.text.split("\nSamples:\n", 1)
        samples, rest = rest.split("\nLocations\n", 1)
        self.comments = re.findall(r"^Comment: (.*)$", head, re.M)
        names, *lines = samples.splitlines()
        self.types = names.replace("[dflt]", "").split()
        self.functions = dict(re.findall(r"^ +(\d+): 0x0 M=\d+ (\S+) .*$", rest, re.M))
        self.samples: list[tuple[dict[str, int], list[str], str]] = []
        for line in lines:
            if found := re.match(r" +([\d ]+): ([\d ]+)$", line):
                values = dict(zip(self.types, map(int, found[1].split())))
                stack = [self.functions.get(at, "?") for at in found[2].split()]
                self.samples.append((values, stack, ""))
            else:
                values, stack, labels = self.samples[-1]
                self.samples[-1] = (values, stack, labels + " " + line.strip())

    def seconds(self, kind: str, function: str, label: str = "") -> float:
        """The sum of a value under a function, over samples with a label."""
        hits = (s for s in self.samples if function in s[1] and label in s[2])
        return sum(values[f"{kind}/nanoseconds"] for values, _, _ in hits) / 1e9


def check_pprof(made: dict, folder: Path, exact: bool) -> None:
    """Sums, labels, places."""
    if not shutil.which("go"):
        print("SKIPPED: no go here, so no `go tool pprof`")
        return
    path = folder / "out.pb.gz"
    path.write_bytes(export(made["capture"], "pprof"))
    profile = Pprof(path)
    need(profile.types == ["samples/count", "wall/nanoseconds", "cpu/nanoseconds", "off-cpu/nanoseconds"], profile.types)
    for work in ("busy", "nap"):
        near(profile.seconds("wall", work), made[work]["wall"], f"wall under {work}()")
    near(profile.seconds("cpu", "busy"), made["busy"]["cpu"], "cpu under busy()")
    near(profile.seconds("off-cpu", "nap"), made["nap"]["wall"] - made["nap"]["cpu"], "off-cpu under nap()")
    near(profile.seconds("cpu", "nap"), made["nap"]["cpu"], "cpu under nap()")
    whole = made["busy"]["wall"] + made["nap"]["wall"]
    near(profile.seconds("wall", "work"), whole, "wall under work()")
    near(profile.seconds("wall", "nap", "span:[nap]"), made["nap"]["wall"], "wall of the span nap")
    for label in ("thread:[worker]", "wait:[sleep]", "trace id:[4bf92f3577b34da6]", "request id:[", "thread id:["):
        need(profile.seconds("wall", "nap", label) > 0.9, f"label {label!r} is not on the samples of nap()")
    source = (HERE / "busy_and_asleep.py").read_text().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "time.sleep" in text)
    need(f"nap {HERE}/busy_and_asleep.py:{line}:" in profile.text, f"no location of nap() at line {line}")
    need("<module>" in profile.text, "the frame <module> lost its name")
    reported = "off-cpu: exact" if exact else "off-cpu: an estimate"
    need(any(c.startswith(reported) for c in profile.comments), f"no comment {reported!r} in {profile.comments}")
    top = run(
        ["go", "tool", "pprof", "-top", "-sample_index=cpu", str(path)], capture_output=True, check=True, text=True
    ).stdout
    rows = [line.split() for line in top.splitlines() if re.match(r"\s+[\d.]+m?s ", line)]
    need(rows[0][-1] == "busy", f"-top -sample_index=cpu begins with {rows[0]}, wanted busy")


# ---- flame graphs


def check_folded(made: dict) -> None:
    """Lines parse, sums are right."""
    for value, work in (("wall", "busy"), ("cpu", "busy"), ("off-cpu", "nap")):
        sums: dict[str, int] = defaultdict(int)
        for line in export(made["capture"], "folded", "--value", value).decode().splitlines():
            stack, amount = line.rsplit(" ", 1)
            for name in {frame.split(" ")[0] for frame in stack.split(";")}:
                sums[name] += int(amount)
            need(";busy (" not in stack or re.match(r"Thread\._bootstrap ", stack), f"{stack}: not root first")
        wanted = made[work]["wall" if value == "off-cpu" else value]
        near(sums[work] / 1e9, wanted, f"folded, {value} under {work}()")
    counts = export(made["capture"], "folded", "--value", "samples").decode()
    need(all(int(line.rsplit(" ", 1)[1]) > 0 for line in counts.splitlines()), "samples of 0")


def check_speedscope(made: dict, python: Path) -> None:
    """The published schema, and the sum of a thread."""
    text = export(made["capture"], "speedscope")
    code = (
        "import json,sys,jsonschema;"
        "jsonschema.Draft7Validator(json.load(open(sys.argv[1]))).validate(json.load(sys.stdin))"
    )
    run([python, "-c", code, speedscope_schema()], input=text, check=True)
    if "busy" not in made:
        return
    file = json.loads(text)
    frames = file["shared"]["frames"]
    worker = next(p for p in file["profiles"] if p["name"].startswith("worker ("))
    need(abs(worker["startValue"] + sum(worker["weights"]) - worker["endValue"]) < 1, "weights and endValue differ")
    inside = sum(w for s, w in zip(worker["samples"], worker["weights"]) if any(frames[f]["name"] == "nap" for f in s))
    near(inside / 1e9, made["nap"]["wall"], "speedscope, wall under nap()")


# ---- timelines


def check_chrome(made: dict) -> list[tuple[str, str, int]]:
    """It parses, ends match begins, slices of a thread nest; returns its slices."""
    file = json.loads(export(made["capture"], "chrome"))
    need(file["otherData"]["notes"], "no notes")
    slices, open_, threads = [], defaultdict(list), defaultdict(list)
    for event in file["traceEvents"]:
        if event["ph"] == "X":
            slices.append((event["cat"], event["name"], round(event["dur"] * 1000)))
            threads[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "b":
            open_[event["cat"], event["id"]].append(event)
        elif event["ph"] == "e":
            begun = open_[event["cat"], event["id"]].pop()
            need(begun["name"] == event["name"] and begun["ts"] <= event["ts"], f"{begun} is ended by {event}")
            length = round((event["ts"] - begun["ts"]) * 1000)
            slices.append((begun["args"]["kind"], begun["name"], length))
    need(not any(open_.values()), "slices that do not end")
    for tid, rows in threads.items():
        nests(tid, rows)
    return sorted(slices)


def nests(track: object, rows: list[tuple[float, float]]) -> None:
    """Of two slices of a track one lies within the other, or they are apart."""
    inside: list[tuple[float, float]] = []
    for begin, end in rows:
        while inside and inside[-1][1] <= begin + 0.0005:
            inside.pop()
        need(not inside or end <= inside[-1][1] + 0.0005, f"track {track}: {begin}-{end} overlaps {inside[-1:]}")
        inside.append((begin, end))


def check_perfetto(made: dict, python: Path, folder: Path) -> dict:
    """The official classes parse it; see `perfetto_check.py` for the checks."""
    path = folder / "out.perfetto-trace"
    path.write_bytes(export(made["capture"], "perfetto"))
    done = run([python, HERE / "perfetto_check.py", path], stdout=subprocess.PIPE)
    need(done.returncode == 0, "perfetto_check.py says why")
    return json.loads(done.stdout)


def check_timelines(made: dict, python: Path, folder: Path) -> dict:
    """Both formats, and that they agree."""
    chrome = check_chrome(made)
    perfetto = check_perfetto(made, python, folder)
    need(perfetto["unknown_fields"] == 0, "fields that the official schema does not know")
    same = [tuple(row) for row in perfetto["slices"]]
    need(len(same) == len(chrome), f"perfetto has {len(same)} slices, chrome {len(chrome)}")
    # Chrome's times are microseconds in doubles: to the nanosecond, but for the last one.
    for a, b in zip(sorted(same), chrome):
        need(a[:2] == b[:2] and abs(a[2] - b[2]) <= 2, f"perfetto {a}, chrome {b}")
    return perfetto


def check_thread_timeline(made: dict, python: Path, folder: Path) -> None:
    """The hostile request, its spans, the states of its thread, its samples."""
    seen = check_timelines(made, python, folder)
    by_name = defaultdict(int)
    for category, name, length in seen["slices"]:
        by_name[category, name] += length
    whole = made["busy"]["wall"] + made["nap"]["wall"]
    name = 'GET /work"</script><script>\n;'
    near(by_name["request", name] / 1e9, whole, "the request")
    near(by_name["span", "nap"] / 1e9, made["nap"]["wall"], "the span nap")
    sleeping = max(length for _, name, length in seen["slices"] if name == "waiting: sleep")
    near(sleeping / 1e9, made["nap"]["wall"], "the longest sleep among the states")
    need(seen["samples"]["worker"] > 20, f"samples of the worker: {seen['samples']}")
    need(any(s.endswith("work > section > nap") for s in seen["stacks"]), f"no stack of nap(): {seen['stacks']}")
    need(seen["counters"], "no counters")


def check_loop_timeline(made: dict, python: Path, folder: Path) -> None:
    """Overlapping requests and their spans, a flow, events, awaits."""
    seen = check_timelines(made, python, folder)
    names = sorted(name for category, name, _ in seen["slices"] if category == "request")
    need(names == [f"GET /async/{n}" for n in range(1, 5)], f"requests: {names}")
    spans = [name for category, name, _ in seen["slices"] if category == "span" and not name.startswith("dashcam.")]
    need(sorted(spans) == ["db.query"] * 4 + ["render"] * 4, f"spans: {spans}")
    need(seen["flows"] == 1, f"flows: {seen['flows']}, wanted one to the thread that resized")
    need(seen["instants"].count("half.way") == 4, f"events: {seen['instants']}")
    awaits = {name for category, name, _ in seen["slices"] if category == "await"}
    need("awaits sleep" in awaits, f"awaits: {awaits}")


# ---- what is refused


def refused(arguments: list, code: int, reported: str, where: Path) -> None:
    """The command ends with `code`, prints `reported` to stderr, nothing to stdout, and leaves no
    file.
    """
    before = sorted(where.iterdir())
    done = run([dashcam(), "export", *arguments], capture_output=True)
    need(done.returncode == code, f"{arguments}: exit {done.returncode}, wanted {code}")
    need(reported in done.stderr.decode() and not done.stdout, f"{arguments}: {done.stderr!r}, wanted {reported!r}")
    need(sorted(where.iterdir()) == before, f"{arguments}: left {set(where.iterdir()) - set(before)}")


def check_refusals(made: dict, folder: Path) -> None:
    """Foreign, newer, cut, missing; wrong places; values where there are none."""
    whole = Path(made["capture"]).read_bytes()
    samples = {
        "foreign": (b"\x7fELF" + bytes(100), "not a dashcam capture"),
        "nothing": (b"", "the file is empty"),
        "newer": (whole.replace(b"DASHCAM 2", b"DASHCAM 9", 1), "format 9"),
        "cut": (whole[:200], "damaged beyond reading"),
    }
    for name, (content, reported) in samples.items():
        path = folder / f"{name}.dashcam"
        path.write_bytes(content)
        for to in FORMATS:
            refused([path, "--to", to, "-o", folder / "never"], 3, reported, folder)
    refused([folder / "missing.dashcam", "--to", "pprof"], 3, "No such file", folder)
    capture = made["capture"]
    refused([capture, "--to", "pprof", "--value", "cpu"], 2, "--value", folder)
    refused([capture, "--to", "otf2"], 2, "invalid value", folder)
    refused([capture, "--to", "folded", "-o", folder], 2, "is a folder", folder)
    refused([capture, "--to", "folded", "-o", folder / "no" / "where"], 2, "cannot write", folder)
    refused([capture, "--to", "folded", "-o", capture], 2, "the capture itself", folder)
    half = folder / "half.dashcam"
    half.write_bytes(whole[: len(whole) * 2 // 3])
    for to in FORMATS:
        done = run([dashcam(), "export", half, "--to", to], capture_output=True)
        need(done.returncode == 0 and b"cut off" in done.stderr, f"{to} of a cut capture: {done.stderr!r}")


def check_places(made: dict, folder: Path) -> None:
    """-o, a terminal, and an interrupt."""
    target = folder / "named.pb.gz"
    target.write_text("old")
    run([dashcam(), "export", made["capture"], "--to", "pprof", "-o", target], check=True)
    need(target.read_bytes()[:2] == b"\x1f\x8b", "-o did not replace the file")
    # `script` gives it a terminal: a file beside the capture, whose name is printed.
    beside = Path(made["capture"]).with_suffix(".perfetto-trace")
    command = f"{dashcam()} export {made['capture']} --to perfetto"
    shown = run(["script", "-qec", command, "/dev/null"], capture_output=True, check=True).stdout
    need(shown.decode().strip().endswith(str(beside)), f"at a terminal: {shown!r}, wanted {beside}")
    need(beside.read_bytes() == export(made["capture"], "perfetto"), "the file beside differs from the pipe")
    done = run(["script", "-qec", command + " -o -", "/dev/null"], capture_output=True)
    need(done.returncode == 2 and b"is binary" in done.stdout, f"binary to a terminal: {done.stdout!r}")
    # After any interruption: the old file or the whole new one, and nothing else.
    alone = folder / "alone"
    alone.mkdir()
    target = alone / "out.json"
    wanted = {b"old", export(made["capture"], "chrome")}
    for step in range(25):
        target.write_text("old")
        command = [dashcam(), "export", made["capture"], "--to", "chrome", "-o", target]
        with subprocess.Popen(command) as process:
            time.sleep(step * 0.001)
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)
        left = {path.name: path.read_bytes() for path in alone.iterdir()}
        need(set(left) == {"out.json"} and left["out.json"] in wanted, f"after an interrupt: {list(left)}")


def main() -> int:
    """Runs all checks; prints each."""
    python, failed = tools(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        busy = recorded("busy_and_asleep.py", folder / "captures")
        guessed = recorded("busy_and_asleep.py", folder / "captures", DASHCAM_SWITCHES="off")
        looped = recorded("on_a_loop.py", folder / "captures")
        sources = json.loads(run([dashcam(), "show", "--json", busy["capture"]], stdout=subprocess.PIPE, check=True).stdout)["meta"]["sources"]
        exact = sources["switches"] == "on"
        if not exact:
            print(f"SKIPPED: exact times, since switches are {sources['switches']}")
        checks = {
            "pprof": lambda: check_pprof(busy, folder, exact),
            "pprof, estimated": lambda: check_pprof(guessed, folder, False),
            "folded": lambda: check_folded(busy),
            "speedscope": lambda: check_speedscope(busy, python),
            "speedscope of a loop": lambda: check_speedscope(looped, python),
            "chrome and perfetto": lambda: check_thread_timeline(busy, python, folder),
            "chrome and perfetto of a loop": lambda: check_loop_timeline(looped, python, folder),
            "what is refused": lambda: check_refusals(busy, folder),
            "places and interrupts": lambda: check_places(busy, folder),
        }
        for what, check in checks.items():
            try:
                check()
                print(f"export: {what}: ok")
            except (Wrong, subprocess.SubprocessError) as wrong:
                failed += 1
                print(f"export: {what}: FAILED: {wrong}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
