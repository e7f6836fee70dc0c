#!/usr/bin/env python3
"""Runs the sick programs and their healthy twins under dashcam and scores the verdicts.

A case is a folder with `program.py` (sick as it is, `program.py healthy` is the twin) and
`case.json`: the cause, the place, the culprit if it is another thread, other causes that are right
too, and the limit. Each runs as a service under `dashcam run` while a load generator in another
process asks it; then `dashcam why --json` is compared with the case. A sick program counts only if
its load generator saw slow answers.

A twin makes no capture by itself, so it is killed with SIGKILL and its black boxes are recovered:
there must be requests in them, and nothing may be blamed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LOAD = HERE.parent / "tools" / "load.py"


@dataclass
class Outcome:
    """What came of one run."""

    case: str
    mode: str
    ok: bool
    found: str
    note: str = ""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent,
                        help="folder with dashcam and python [the one of this interpreter]")
    parser.add_argument("--case", default="*", help="globs over the cases' names, with commas")
    parser.add_argument("--switches", choices=["on", "off", "both"], default="on")
    parser.add_argument("--twins", choices=["yes", "no", "only"], default="yes")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    return parser.parse_args()


def free_port() -> int:
    """A port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_service(options: argparse.Namespace, case: str, spec: dict[str, Any], sick: bool,
                switches: str, out: Path) -> tuple[dict[str, float], str]:
    """One service under load; the load generator's figures and the service's stderr."""
    port = free_port()
    program = [str(options.bin / "python"), str(HERE / case / "program.py")]
    command = [str(options.bin / "dashcam"), "run", "--slow", spec["slow"], "--service", f"zoo{port}",
               "--out", str(out), "--", *program, *([] if sick else ["healthy"])]
    env = {**os.environ, "PORT": str(port), "DASHCAM_SWITCHES": switches}
    errors = open(out / "stderr", "w+", encoding="utf-8")
    service = subprocess.Popen(command, env=env, stderr=errors, stdout=subprocess.DEVNULL,
                               start_new_session=True)
    figures = out / "load.json"
    try:
        subprocess.run([sys.executable, str(LOAD), f"http://127.0.0.1:{port}/", "--connections", "4",
                        "--rate", "60", "--seconds", str(options.seconds), "--wait-ready", "30",
                        "--json", str(figures)], stdout=subprocess.DEVNULL, check=False)
        time.sleep(1.6)
    finally:
        end(service, signal.SIGTERM if sick else signal.SIGKILL)
    if not sick:
        recover(options, f"zoo{port}", out)
    errors.seek(0)
    loaded = json.loads(figures.read_text()) if figures.exists() else {}
    return loaded, errors.read()


def end(service: "subprocess.Popen[bytes]", how: signal.Signals) -> None:
    """`how` to the service; SIGKILL to its whole group for what is left."""
    if how != signal.SIGKILL:
        service.send_signal(how)
        try:
            service.wait(5)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(service.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    service.wait()


def recover(options: argparse.Namespace, service: str, out: Path) -> None:
    """Makes captures of the black boxes that killed services left."""
    for box in Path(f"/dev/shm/dashcam-{os.getuid()}").glob(f"{service}-*.box"):
        pid = box.name.split("-")[-2]
        deadline = time.monotonic() + 5  # a worker's parent died with it: init reaps it soon
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not Path(f"/proc/{pid}").exists():
            subprocess.run([str(options.bin / "dashcam"), "recover", str(box), "-o",
                            str(out / f"recovered-{pid}.dashcam")], capture_output=True, check=True)
            box.unlink(missing_ok=True)


def why(options: argparse.Namespace, out: Path) -> tuple[int, dict[str, Any]]:
    """The verdict on a capture, or on the newest one in a folder."""
    result = subprocess.run([str(options.bin / "dashcam"), "why", "--json", str(out)],
                            capture_output=True, text=True)
    try:
        return result.returncode, json.loads(result.stdout)
    except json.JSONDecodeError:
        return result.returncode, {}


def place_fits(found: Any, wanted: Any) -> bool:
    """Whether a place of the verdict is the wanted function and file."""
    if not wanted:
        return True
    return bool(found) and found["function"] == wanted["function"] and \
        os.path.basename(found["file"]) == wanted["file"]


def judge_sick(name: str, mode: str, spec: dict[str, Any], figures: dict[str, float], report: str,
               verdict: dict[str, Any]) -> Outcome:
    """Compares a verdict with the case."""
    limit_ms = float(spec["slow"].removesuffix("ms"))
    if figures.get("max_ms", 0) < limit_ms:
        return Outcome(name, mode, False, "-", f"no slow answer seen (max {figures.get('max_ms')} ms)")
    if not verdict:
        return Outcome(name, mode, False, "no capture", report.strip()[-300:])
    if not verdict["causes"]:
        return Outcome(name, mode, False, "nothing", f"{verdict['requests']}")
    top = verdict["causes"][0]
    cause = top["cause"] == spec["cause"] or top["cause"] in spec.get("accept", [])
    where = place_fits(top["where"], spec.get("where"))
    culprit = place_fits(top["culprit"], spec.get("culprit")) or \
        (top["cause"] in spec.get("accept", []) and top["cause"] != spec["cause"])
    found = f"{top['cause']} {top['share']:.2f} {top['confidence']}"
    places = "; ".join(f"{k}: {os.path.basename(top[k]['file'])}:{top[k]['line']} {top[k]['function']}"
                       for k in ("where", "culprit") if top[k])
    wrong = [w for w, fits in [("cause", cause), ("where", where), ("culprit", culprit)] if not fits]
    return Outcome(name, mode, not wrong, found, (f"WRONG {', '.join(wrong)}; " if wrong else "") + places)


def judge_twin(options: argparse.Namespace, name: str, mode: str, out: Path) -> Outcome:
    """A twin must have been seen at work, and must not be blamed, in any of its captures."""
    judged, blamed = 0, []
    for capture in out.glob("*.dashcam"):
        code, verdict = why(options, capture)
        if not verdict:
            return Outcome(name, mode, False, f"exit {code}", f"{capture.name} cannot be judged")
        judged += verdict["requests"]["total"]
        blamed += [f"{c['cause']} {c['share']:.2f}" for c in verdict["causes"]]
    if judged < 50:
        return Outcome(name, mode, False, "-", f"only {judged} requests were seen")
    return Outcome(name, mode, not blamed, ", ".join(blamed) or f"nothing, in {judged} requests")


def run_case(options: argparse.Namespace, case: str, sick: bool, switches: str) -> Outcome:
    """One case, or its twin."""
    spec = json.loads((HERE / case / "case.json").read_text())
    out = Path(tempfile.mkdtemp(prefix="zoo-"))
    try:
        figures, report = run_service(options, case, spec, sick, switches, out)
        name = case if sick else f"{case} (healthy)"
        if not sick:
            return judge_twin(options, name, switches, out)
        _, verdict = why(options, out)
        return judge_sick(name, switches, spec, figures, report, verdict)
    finally:
        if not os.environ.get("ZOO_KEEP"):
            shutil.rmtree(out, ignore_errors=True)


def plan(options: argparse.Namespace) -> list[tuple[str, bool, str]]:
    """What to run: case, sick or twin, switches."""
    cases = sorted(p.parent.name for p in HERE.glob("*/case.json"))
    modes = ["on", "off"] if options.switches == "both" else [options.switches]
    out = []
    wanted = options.case.split(",")
    for case in (c for c in cases if any(fnmatch.fnmatch(c, glob) for glob in wanted)):
        cause = json.loads((HERE / case / "case.json").read_text())["cause"]
        for mode in modes:
            if cause is not None and options.twins != "only":
                out.append((case, True, mode))
            if options.twins != "no":
                out.append((case, False, mode))
    return out


def main() -> int:
    """0 when every case and every twin is right."""
    options = arguments()
    dashcam = options.bin / "dashcam"
    if not dashcam.exists():
        sys.exit(f"zoo: {dashcam} is not there; run `make setup`, or give --bin")
    steps = plan(options)
    if not steps:
        sys.exit(f"zoo: no case matches {options.case!r}")
    outcomes = []
    for case, sick, mode in steps:
        outcome = run_case(options, case, sick, mode)
        if not outcome.ok and outcome.found == "-":
            outcome = run_case(options, case, sick, mode)  # the machine was in the way: once more
        outcomes.append(outcome)
        print(f"{'ok  ' if outcome.ok else 'FAIL'} {outcome.case:32} switches {outcome.mode:4} "
              f"{outcome.found:36} {outcome.note}", flush=True)
    right = sum(o.ok for o in outcomes)
    if options.json:
        options.json.write_text(json.dumps([vars(o) for o in outcomes], indent=1))
    print(f"zoo: {right} passed, {len(outcomes) - right} failed")
    return 0 if right == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
