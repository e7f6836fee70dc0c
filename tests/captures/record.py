#!/usr/bin/env python3
"""Records golden captures: runs sick programs under load and stores what was recorded, once its
verdict is the right answer.

    tests/captures/neutral /srv/venv/3.11/bin/python tests/captures/record.py \\
        --case 'lock_*' --switches both

Runs inside `neutral`. A program is a case of the zoo or one of `programs/`; what is stored is named
after it. `golden pack` trims the capture, judges it, and refuses one that names its machine. A run
whose verdict is wrong is recorded again, up to --tries times; what it was is printed, for a person
to say whether the machine or the diagnosis is to blame.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "zoo"))

import cases  # noqa: E402
import run as zoo  # noqa: E402

GOLDEN = ROOT / "target/golden"
OUT = Path("/srv/out")
FORMAT = 2
PACK_S = 300
PROGRAMS = HERE / "programs"
# Stored captures that are damaged, and how.
DAMAGED = [
    ("lock_chain", "cut at 30 %"),
    ("lock_chain", "cut at 90 %"),
    ("sleep_library", "cut at 60 %"),
    ("gevent_sleep", "cut at 1 %"),
    ("waitress_lock-off", "cut at 75 %"),
    ("lock_chain", "a bit turned in chunk BLKS 1"),
    ("sleep_library", "a bit turned in chunk BLKS 2"),
    ("lock_chain", "a bit turned in chunk META 1"),
    ("lock_chain", "a bit turned in chunk NAME 2"),
    ("waitress_peer", "a bit turned in chunk STCK 2"),
    ("waitress_peer", "without chunk CODE"),
    ("lock_chain", "without chunk THRD"),
    ("lock_chain", "without chunk BLKS"),
    ("waitress_peer", "without chunk ENDS"),
    ("lock_chain", "without chunk META"),
    ("lock_chain", "format 1"),
    ("lock_chain", "format 9"),
]
SERVERS = {
    "plain": ["http.server", "threads"],
    "reference": ["wsgiref"],
    "flask": ["flask", "werkzeug"],
    "worker": ["threads"],
    "streams": ["asyncio"],
    "fastapi": ["uvicorn", "fastapi"],
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="*", help="globs over the cases' names, with commas")
    parser.add_argument("--switches", choices=["on", "off", "both"], default="both")
    parser.add_argument("--python", dest="version", default="3.11", help="version: an environment in /srv/venv")
    parser.add_argument("--tries", type=int, default=3, help="most runs of a program [3]")
    parser.add_argument("--missing", action="store_true", help="leave out what is stored already")
    parser.add_argument("--damaged", action="store_true", help="make the damaged ones of what is stored")
    parser.add_argument("--twins", action="store_true", help="record the healthy twins instead")
    return parser.parse_args()


class RustCase(cases.Case):
    """The service in Rust with one of its defects: it starts dashcam itself, like a program in
    C.
    """

    @property
    def is_native(self) -> bool:
        """Its settings come from the environment alone."""
        return True

    def command(self, python: str, port: int, sick: bool, recorded: bool = True) -> list[str]:
        """`prepare` has built it."""
        return [*self.spec["server"], *([] if sick else ["healthy"])]


def found(glob: str) -> list[cases.Case]:
    """The zoo's cases and those of `programs/` whose names match."""
    own = []
    for path in sorted(PROGRAMS.glob("*/*.json")):
        spec = {**cases.DEFAULTS, **json.loads(path.read_text("utf-8"))}
        is_rust = path.name != "case.json"
        name = path.stem if is_rust else path.parent.name
        if is_rust and not Path(spec["server"][0]).exists():
            print(f"left out {name}: {spec['server'][0]} is not there; `prepare` builds it", flush=True)
            continue
        own.append((RustCase if is_rust else cases.Case)(name, path.parent, spec))
    matching = [case for case in own if any(cases.fnmatch.fnmatch(case.name, one) for one in glob.split(","))]
    return [*cases.find(glob), *matching]


def servers(case: cases.Case) -> list[str]:
    """What a case's program runs on."""
    if "binding" in case.spec:
        return list(case.spec["binding"])
    if case.is_native:
        return ["c"]
    programs = (case.folder / name for name in ("sick.py", "healthy.py", "program.py"))
    source = next(path for path in programs if path.exists()).read_text("utf-8")
    words = " ".join(case.spec["server"])
    names = []
    if kind := re.search(r"gunicorn .*-k (\w+)", words):
        names.append(f"gunicorn {kind[1]}")
    elif "uvicorn" in words:
        names.append("uvicorn")
    elif call := re.search(r"service\.gunicorn\(\w+(?:, \"(\w+)\")?", source):
        names.append(f"gunicorn {call[1] or 'gthread'}")
    elif call := re.search(rf"service\.({'|'.join(SERVERS)})\(", source):
        names += SERVERS[call[1]]
    elif "wsgiref" in source:
        names.append("wsgiref")
    names += [one for one in ("django", "fastapi", "flask") if re.search(rf"(from|import) {one}\b", source)]
    return list(dict.fromkeys(names))


def quoted(value: Any) -> str:
    """A value of TOML: its strings and lists are JSON's."""
    return json.dumps(value, ensure_ascii=False)


def spots(places: list[Optional[dict[str, Any]]]) -> list[str]:
    """Places as `FUNCTION in FILE`."""
    return [f"{place['function']} in {place['file']}" for place in places if place]


def description(case: cases.Case, switches: str, python: str, sick: bool) -> str:
    """The text of NAME.toml."""
    spec = case.spec
    lines = [
        f"case = {quoted(case.name)}",
        f"switches = {quoted(switches)}",
        f"server = {quoted(servers(case))}",
        f"python = {quoted('' if case.is_native else python)}",
        f"format = {FORMAT}",
        'verdict = "right"',
        "",
        "[answer]",
        f"cause = {quoted(spec['cause'] if sick else 'none')}",
    ]
    if sick:
        for key, value in [
            ("accept", spec["accept"]),
            ("where", spots([spec["where"], *spec["where_also"]])),
            ("culprit", spots([spec["culprit"], *spec["culprit_also"]]) if spec["culprit"] else []),
        ]:
            lines += [f"{key} = {quoted(value)}"] if value else []
        lines += ["culprit_by_switches = true"] if spec["culprit_by_switches"] else []
        if spec["then"]:
            place = quoted(spots([spec["then"]["where"]]))
            lines.append(f"then = {{ cause = {quoted(spec['then']['cause'])}, where = {place} }}")
    return "\n".join(lines) + "\n"


def name_of(case: cases.Case, switches: str, python: str, sick: bool) -> str:
    """The stored files' name: it contains what differs from the usual."""
    parts = [case.name.replace("/", "-"), "" if sick else "healthy"]
    parts += ["off" if switches == "off" else "", "" if python == "3.11" or case.is_native else f"py{python}"]
    return "-".join(part for part in parts if part)


def record(options: argparse.Namespace, case: cases.Case, switches: str) -> str:
    """Records one program until its verdict is right and it is stored; returns the result of the
    last run.
    """
    sick = not options.twins
    name = name_of(case, switches, options.version, sick)
    text = OUT / f"{name}.toml"
    text.write_text(description(case, switches, options.version, sick), "utf-8")
    came = ""
    for attempt in range(1, options.tries + 1):
        folder = Path(tempfile.mkdtemp(prefix="zoo-"))
        try:
            zoo.record(options, case, sick, switches, folder)
            made = sorted((folder / "captures").glob("*.dashcam"), key=lambda p: p.stat().st_mtime)
            figures = cases.figures(folder / "load.json")
            if not made:
                came = f"no capture: {figures.get('slow', 0):g} slow; {cases.tail(folder / 'output', 300)}"
            else:
                came = store(made, text)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if came == "stored":
            return f"stored (try {attempt})"
    return came


def damage(options: argparse.Namespace) -> int:
    """Makes the damaged captures from those that are stored whole."""
    failed = 0
    for source, how in DAMAGED:
        name = f"damaged-{source}-{re.sub(r'[^a-zA-Z0-9]+', '-', how).strip('-')}"
        if not any(cases.fnmatch.fnmatch(name, one) for one in options.case.split(",")):
            continue
        whole = (HERE / f"{source}.toml").read_text("utf-8")
        text = OUT / f"{name}.toml"
        marked = whole.replace("\n\n[answer]\n", f"\ndamage = {quoted(how)}\n\n[answer]\nmay_be_silent = true\n")
        text.write_text(marked, "utf-8")
        # Its verdict is a fact of the reader and the diagnosis, right or wrong.
        pack = [str(GOLDEN), "pack", "--as-it-is", str(HERE / f"{source}.dashcam.gz"), str(text)]
        command = [*pack, "--in", str(HERE)]
        failed += bool(subprocess.run(command, timeout=PACK_S, check=False).returncode)
    return failed


def store(made: list[Path], text: Path) -> str:
    """Packs the newest capture that is right; returns `stored`, or the fault of the newest."""
    came = ""
    for capture in reversed(made):
        command = [str(GOLDEN), "pack", str(capture), str(text), "--in", str(HERE)]
        packed = subprocess.run(command, capture_output=True, text=True, timeout=PACK_S, check=False)
        if packed.returncode == 0:
            print(packed.stdout.rstrip(), flush=True)
            return "stored"
        shutil.copy(capture, OUT / f"{text.stem}.wrong.dashcam")
        came = came or packed.stdout + packed.stderr
    return came


def main() -> int:
    """0 if everything requested is stored."""
    options = arguments()
    if options.damaged:
        return damage(options)
    folder = Path(f"/srv/venv/{options.version}/bin")
    # As the zoo's own runner wants them.
    options.dashcam, options.python = str(folder / "dashcam"), str(folder / "python")
    options.generated = options.seconds = None
    left = []
    for case in cases.possible(found(options.case)):
        if not case.has_sick and not options.twins:
            continue
        for switches in ["on", "off"] if options.switches == "both" else [options.switches]:
            name = name_of(case, switches, options.version, not options.twins)
            if options.missing and (HERE / f"{name}.dashcam.gz").exists():
                continue
            came = record(options, case, switches)
            print(f"{name}: {came}", flush=True)
            left += [] if came.startswith("stored") else [name]
    print(f"not stored: {', '.join(left)}" if left else "all stored", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    os.chdir(OUT)
    sys.exit(main())
