#!/usr/bin/env python3
"""The C library from the outside: installed, compiled against with pkg-config as C11 and as C++,
run, and its captures read with the real command. Prints a line for each case; 0 when all passed.

    c/tests/run.py [--live] [WORD ...]      only the cases whose names have one of the words

Without `--live`: cases with one right result on any machine, where a program's records are in its
capture. With `--live`: programs whose waits `why` has to name, which takes real time.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-pthread"]
LANGUAGES = {
    "c": ["cc", "-std=c11", "-D_GNU_SOURCE"],
    "c++": ["g++", "-std=c++17", "-x", "c++"],
}
# The waits of native.c, and its CPU time: their causes and places.
WAITS = {
    "sleep": ("sleep", "rest"),
    "lock": ("lock-wait", "reserve"),
    "held": ("lock-wait", "reserve"),
    "read": ("downstream-wait", "ask"),
    "cpu": ("cpu", "digest"),
    "inlined": ("cpu", "mix"),
    "ticks": ("cpu", "tally"),
}
# Code that a signal interrupted: it is shown as the handler's caller.
INTERRUPTED = {"ticks": {"serve_signals", "on_tick"}}
# The places of the lock's holders: one sleeps, one computes.
HOLDERS = {"lock": "rest", "held": "digest"}
# How native.c is compiled, and what `why` must still name.
BUILDS = {
    "optimised": ["-O2", "-g"],
    "unoptimised": ["-O0", "-g"],
    "with frame pointers": ["-O2", "-g", "-fno-omit-frame-pointer"],
    "at a fixed address, static library": ["-O2", "-g", "-no-pie"],
    "without a build id": ["-O2", "-g", "-Wl,--build-id=none"],
    "without debug information": ["-O2"],
}
GUIDE = ROOT / "docs/guide/c.md"
PROGRAMS = ["threads", "signals", "forks", "misuse", "metrics", "plugin", "guide"]
# What metrics.c counts, over all windows: kind, name, tags, and the sum of a field of these.
METRICS = [
    ("counter", "orders", {}, "count", 40005),
    ("counter", "orders", {"region": "eu", "tier": ""}, "count", 40000),
    ("timing", "db.query", {}, "count", 40000),
    ("timing", "db.query", {}, "sum", 50000),
    ("distribution", "size", {}, "sum", 312),
]


class Failed(Exception):
    """One line of progress."""


# Seconds for a build on a machine with other load.
BUILD_S = 1500


def run(command: list[str], timeout: float = 300, **options: object) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tools_here() -> None:
    """Installs what a bare Debian lacks, if that is allowed; otherwise reports what is missing."""
    wanted = {"cc": "gcc", "g++": "g++", "pkg-config": "pkg-config"}
    lacking = [package for tool, package in wanted.items() if shutil.which(tool) is None]
    if lacking and os.getuid() == 0 and shutil.which("apt-get"):
        run(["apt-get", "update", "-qq"])
        run(["apt-get", "install", "-y", "-qq", *lacking])
        lacking = []
    if lacking:
        raise Failed(f"c: found no {', '.join(lacking)}; wanted them installed")


class Setting:
    """An installation in a folder of its own, with the command beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"
        profile = {"DASHCAM_PROFILE": os.environ.get("DASHCAM_PROFILE", "dev")}
        run([str(ROOT / "tools/install_c"), str(self.prefix)], env=os.environ | profile, timeout=BUILD_S)
        # As `tools/test` builds everything: its build is used again.
        whole = ["--workspace", "--exclude", "dashcam-python", "--all-features"]
        run(["cargo", "build", "--quiet", *whole, "--lib", "--bins", "--tests"], cwd=ROOT, timeout=BUILD_S)
        self.command = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/dashcam"
        self.config = os.environ | {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}

    def pkg_config(self, *what: str) -> list[str]:
        """Flags from dashcam.pc."""
        return shlex.split(run(["pkg-config", *what, "dashcam"], env=self.config))

    def source(self, program: str) -> Path:
        """The program's file; `guide` is the C of docs/guide/c.md."""
        if program != "guide":
            return HERE / f"{program}.c"
        found = re.search(r"```c\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
        if not found:
            raise Failed(f"{GUIDE} has no C in it")
        path = self.folder / "guide.c"
        path.write_text(found.group(1), encoding="utf-8")
        return path

    def compile(self, program: str, language: str, static: bool = False) -> Path:
        """The program, compiled and linked."""
        out = self.folder / f"{program}-{language}{'-static' if static else ''}"
        source = [*LANGUAGES[language], *STRICT, str(self.source(program)), "-x", "none"]
        if program == "plugin":
            libs = ["-ldl"]
        elif static:
            private = [flag for flag in self.pkg_config("--libs", "--static") if flag != "-ldashcam"]
            libs = [str(self.prefix / "lib/libdashcam.a"), *private]
        else:
            libs = [*self.pkg_config("--libs"), f"-Wl,-rpath,{self.prefix}/lib"]
        run([*source, "-o", str(out), *self.pkg_config("--cflags"), *libs])
        return out

    def try_program(self, program: str, language: str, static: bool = False) -> None:
        """Runs it and compares its output with its captures."""
        binary = self.compile(program, language, static)
        captures = self.folder / f"{binary.name}-captures"
        arguments = [str(self.prefix / "lib/libdashcam.so")] if program == "plugin" else []
        said = run([str(binary), str(captures), *arguments], cwd=self.folder)
        lines = [json.loads(line) for line in said.splitlines()]
        if program == "guide":
            path = next((self.folder / "captures").glob("billy-*.dashcam"))
            path = path.rename(path.with_name(f"{binary.name}.dashcam"))
            lines = [{"capture": str(path), "requests": 1, "spans": 1, "events": 0, "tasks": 0}]
        elif program == "slow":
            self.check_cause(captures)
        elif not lines:
            raise Failed(f"{binary.name}: it said nothing of a capture")
        for line in lines:
            self.check_counts(binary.name, line)

    def check_counts(self, case: str, said: dict) -> None:
        """The capture holds the program's records."""
        shown = json.loads(run([str(self.command), "show", "--json", said["capture"]]))
        losses = shown["meta"]["losses"]
        lost = dict(losses if isinstance(losses, dict) else [(loss["name"], loss["count"]) for loss in losses])
        for what in ("requests", "spans", "events", "tasks"):
            found, wanted = shown["counts"][what], said[what]
            # Events that a signal handler could not record are counted.
            dropped = lost.get("dropped_reentrant", 0) if (what, "signals" in case) == ("events", True) else 0
            if found + dropped != wanted:
                raise Failed(f"{case}: {found} {what} and {dropped} dropped in the capture, wanted {wanted}")
        if case.startswith("metrics"):
            self.check_metrics(case, shown["metrics"])
        missing = sum(t["missing_between"] for t in shown["threads"])
        if shown["damage"] or missing:
            raise Failed(f"{case}: damage {shown['damage']}, {missing} records missing")

    def check_metrics(self, case: str, metrics: list[dict]) -> None:
        """Each count of metrics.c is in one window, and none of its child's."""
        windows = {(m["kind"], m["name"], json.dumps(m["tags"], sort_keys=True)): m["windows"] for m in metrics}
        for kind, name, tags, field, wanted in METRICS:
            found = sum(w[field] for w in windows.get((kind, name, json.dumps(tags, sort_keys=True)), []))
            if found != wanted:
                raise Failed(f"{case}: {kind} {name} {tags}: {field} is {found}, wanted {wanted}; there are {list(windows)}")
        depth, users = windows[("gauge", "depth", "{}")][-1], windows[("set", "users", "{}")]
        if depth["value"] != 4.5 or max(w["members"] for w in users) > 2 or sum(w["members"] for w in users) < 2:
            raise Failed(f"{case}: the gauge is {depth}, wanted 4.5; the set has {users}, wanted 2 members")

    def check_cause(self, captures: Path) -> None:
        """`why` names the pause."""
        done = subprocess.run(
            [str(self.command), "why", "--json", str(captures)], capture_output=True, text=True, check=False
        )
        causes = [cause["cause"] for cause in json.loads(done.stdout)["causes"]]
        if causes[:1] != ["sleep"]:
            raise Failed(f"slow: why names {causes}, wanted sleep")

    def try_native(self, build: str) -> None:
        """`why` names function, file and line of each wait in native.c, however it was compiled."""
        source, binary = HERE / "native.c", self.folder / f"native-{build.replace(' ', '-')}"
        private = [flag for flag in self.pkg_config("--libs", "--static") if flag != "-ldashcam"]
        shared = [*self.pkg_config("--libs"), f"-Wl,-rpath,{self.prefix}/lib"]
        libs = [str(self.prefix / "lib/libdashcam.a"), *private] if "static" in build else shared
        flags = [flag for flag in STRICT if flag != "-O1"] + BUILDS[build]
        run([*LANGUAGES["c"], *flags, "-o", str(binary), str(source), *self.pkg_config("--cflags"), *libs])
        for mark, (cause, function) in WAITS.items():
            captures = self.folder / f"{binary.name}-{mark}"
            run([str(binary), str(captures), mark], cwd=self.folder)
            lines = source.read_text(encoding="utf-8").splitlines()
            line = next(n for n, text in enumerate(lines, 1) if f"// WAIT-{'lock' if mark in HOLDERS else mark}" in text)
            wanted = {"cause": cause, "function": function, "file": str(source), "line": line}
            if build == "without debug information":
                wanted |= {"file": str(binary), "line": 0}
                wanted["function"] = {"mix": "total"}.get(function, function)
            # A busy machine keeps computing threads off the CPU: that is reported too, and may come
            # first.
            found = self.first_cause(captures, cause if cause == "cpu" else None)
            path, culprit = found.pop("path"), found.pop("culprit")
            holder = HOLDERS.get(mark)
            if holder and (culprit or {}).get("function") != holder:
                raise Failed(f"native {mark}: why blames {culprit}; wanted {holder}(), which runs under the lock")
            if found != wanted or not {"price", *INTERRUPTED.get(mark, ())} <= set(path):
                raise Failed(f"native {mark}: why says {found}, reached by {path}; wanted {wanted}, by price")
        # Another file of the same name is not used in place of the one that ran.
        binary.write_bytes((self.prefix / "lib/libdashcam.so").read_bytes())
        done = subprocess.run(
            [str(self.command), "why", "--json", str(captures)], capture_output=True, text=True, check=False
        )
        if "another build" not in done.stderr or str(binary) not in done.stderr:
            raise Failed(f"native: the binary was replaced, and why says {done.stderr or 'nothing'}")
        named = self.first_cause(captures)["function"]
        if named in {function for _, function in WAITS.values()}:
            raise Failed(f"native: the binary was replaced, and why still names {named}")

    def first_cause(self, captures: Path, kind: str | None = None) -> dict:
        """The first cause, of that kind, and its place."""
        done = subprocess.run(
            [str(self.command), "why", "--json", str(captures)], capture_output=True, text=True, check=False
        )
        causes = json.loads(done.stdout)["causes"] if done.stdout else []
        causes = [cause for cause in causes if kind in (None, cause["cause"])]
        if not causes:
            raise Failed(f"{captures}: why names no cause: {done.stdout}{done.stderr}")
        where = causes[0]["where"] or {}
        place = {key: where.get(key) for key in ("function", "file", "line")}
        return {"cause": causes[0]["cause"], **place, "path": causes[0]["path"], "culprit": causes[0]["culprit"]}


def turns(setting: Setting, live: bool) -> dict[str, Callable[[], None]]:
    """The cases of a lane by name."""
    if live:
        slow = {f"slow as {language}": partial(setting.try_program, "slow", language) for language in LANGUAGES}
        return slow | {f"native, {build}": partial(setting.try_native, build) for build in BUILDS}
    cases = [(p, language, False) for p in PROGRAMS for language in LANGUAGES]
    return {
        f"{p} as {language}{', static' if static else ''}": partial(setting.try_program, p, language, static)
        for p, language, static in [*cases, ("threads", "c", True), ("forks", "c", True)]
    }


def main() -> int:
    """Runs the cases of a lane."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dashcam-c-") as folder:
        try:
            tools_here()
            setting = Setting(Path(folder))
        except Failed as why:
            print(why, file=sys.stderr)
            return 1
        only = [word for word in sys.argv[1:] if word != "--live"]
        for name, turn in turns(setting, "--live" in sys.argv[1:]).items():
            if only and not any(word in name for word in only):
                continue
            begin, why = time.monotonic(), None
            try:
                turn()
            except Failed as found:
                failed, why = failed + 1, found
            print(f"{'FAILED' if why else 'ok    '}  {name} ({time.monotonic() - begin:.2f} s)", flush=True)
            if why:
                print(why, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
