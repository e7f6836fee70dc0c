#!/usr/bin/env python3
"""Holds the picture of rooms and their imports in ARCHITECTURE.md against the code.

Seven rules, each with its own message: a crate depends only on the rooms named here; the host's
side never reaches the reading side; unsafe code is only in the rooms that may have it; only the two
Python modules can acquire the GIL; imports inside a crate, and inside the Python package, go one
way (`import_cycles`); where a crate's header lists its layers, each module imports only those below
it; no file and no function is longer than the size guide, but those that `LONG` lists with a reason.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import import_cycles

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "dashcam"

# Room -> rooms it may use. The host's side first, then the reading side.
ROOMS: dict[str, set[str]] = {
    "testkit": set(),
    "format": set(),
    "sys": set(),
    "trigger": set(),
    "settings": {"format", "openmetrics", "otlp", "trigger"},
    "metrics": {"sys"},
    "statsd": {"metrics", "sys"},
    "otlp": set(),
    "openmetrics": {"metrics", "sys"},
    "ring": {"format", "sys"},
    "recorder": {"format", "ring", "sys"},
    "dump": {"format", "samplers", "sys"},
    "samplers": {"format", "sys"},
    "sampler": {"format", "ring", "recorder", "samplers", "sys"},
    "capture": {"format"},
    "dashcam": {"otlp", "statsd", "openmetrics", "format", "sys", "ring", "recorder", "sampler", "samplers", "settings",
                "trigger", "metrics", "capture", "dump"},
    "python": {"format", "sys", "ring", "recorder", "samplers", "metrics", "dashcam"},
    "tracing-layer": {"dashcam"},
    "metrics-facade": {"dashcam"},
    "c": {"dashcam"},
    "analysis": {"format", "capture"},
    "diagnosis": {"format", "capture", "analysis"},
    "symbols": {"capture", "format"},
    "export": {"otlp", "format", "capture", "analysis"},
    "report": {"format", "capture", "analysis", "diagnosis"},
    "view": {"format", "capture", "analysis", "diagnosis", "report"},
    "tables": {"format", "capture", "analysis", "diagnosis", "report"},
    "sim": {"format", "sys", "sampler", "capture", "analysis", "diagnosis", "report", "golden"},
    "golden": {"format", "capture", "diagnosis", "report", "symbols", "trigger"},
    "reader": {"capture", "symbols", "tables", "trigger"},
    "attach": {"sys"},
    "cli": {"analysis", "attach", "dump", "samplers", "format", "settings", "sys", "trigger", "capture", "diagnosis", "report", "export",
            "symbols", "tables", "view", "otlp", "statsd"},
}
# The dependencies that a host carries besides our own rooms. A new one needs a line in
# ARCHITECTURE.md.
HOST = {"format", "settings", "sys", "trigger", "metrics", "openmetrics", "otlp", "statsd", "ring", "recorder", "sampler", "samplers",
        "capture", "dump", "dashcam", "python", "tracing-layer", "metrics-facade", "c"}
HOST_MAY_LINK = {"libc", "crc32fast"}
# Further dependencies of a single room.
MAY_LINK = {
    "python": {"pyo3"},
    "tracing-layer": {"tracing", "tracing-subscriber", "pin-project-lite"},
    "metrics-facade": {"metrics-rs"},
    "export": {"prost", "flate2"},
    "view": {"miniz_oxide"},
    "golden": {"flate2", "toml"},
    "symbols": {"addr2line", "gimli", "object"},
    "tables": {"arrow-array", "arrow-schema", "parquet"},
    "reader": {"arrow-array", "pyo3"},
    "cli": {"rustls", "rustls-native-certs", "anstream", "terminal_size", "clap_complete", "clap_mangen"},
}
READERS_MAY_LINK = HOST_MAY_LINK | {"serde_json", "clap"}
UNSAFE = {"sys", "ring", "python", "samplers", "c", "testkit"}
# The other rooms, above all the sampler's, must work while the interpreter is stopped or dying:
# they read it from memory. It is an error if they name its API anywhere (optional, for tests, as a
# function of their own).
CALLS_PYTHON = {"python", "reader"}
PYTHON_API = re.compile(r"\bpyo3\b|\bPy(?:GILState|Eval|Thread|ThreadState|Interpreter(?:State)?|Runtime|Err|Object|Import)_\w+")
# Rooms that are not in crates/, and where they are.
BESIDE = {"python": "python", "reader": "python/reader", "c": "c"}
MOST_LINES = 500
MOST_LINES_OF_FUNCTION = 70
# Files and functions over these, with their lines and why they are not divided. A number only gets
# smaller, and an entry goes when it is not needed any more.
LONG = {
    "crates/format/src/record.rs::decode": (72, "one arm for each kind of record"),
    "crates/samplers/src/python_stacks/attach/published.rs::words_of": (74, "a test's table: one line a word"),
}
# Rooms whose lib.rs lists its layers, the highest first, in a block of text of its header.
LAYERED = {"diagnosis"}
# Only tests and people run these: no other room may depend on them, in any section of its manifest.
TOOLS = {"sim"}


def manifest(room: str) -> Path:
    """The room's Cargo.toml."""
    return ROOT / BESIDE.get(room, f"crates/{room}") / "Cargo.toml"


def dependencies(room: str) -> dict[str, str]:
    """Name -> the line that requires it, of the `[dependencies]` of a room."""
    text = manifest(room).read_text(encoding="utf-8")
    section = re.search(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)
    lines = section.group(1).splitlines() if section else []
    found = (re.match(r"([\w-]+)[.\s=]", line) for line in lines)
    return {m.group(1): m.string for m in found if m}


def sources(room: str) -> list[Path]:
    """The room's own source files."""
    return sorted((manifest(room).parent / "src").rglob("*.rs"))


def check_room(room: str) -> list[str]:
    """The findings in one room."""
    wrong = []
    may_link = (HOST_MAY_LINK if room in HOST else READERS_MAY_LINK) | MAY_LINK.get(room, set())
    for name, line in dependencies(room).items():
        if name in ROOMS and name not in ROOMS[room]:
            wrong.append(f"{room} imports {name}; it may import {sorted(ROOMS[room]) or 'nothing'}")
        elif name not in ROOMS and name not in may_link and "optional" not in line:
            wrong.append(f"{room} links {name}; wanted one of {sorted(may_link)}, or a line in ARCHITECTURE.md")
        if name == "capture" and room in HOST and "read" in line:
            wrong.append(f"{room} turns on capture's reading half; the host carries the writing half only")
    for tool in sorted(TOOLS - {room}):
        if re.search(rf"^(?:dashcam-)?{tool}\b", manifest(room).read_text(encoding="utf-8"), re.M):
            wrong.append(f"{room} names {tool}, which is no part of a host or a reader; wanted no dependency on it")
    if room not in CALLS_PYTHON and PYTHON_API.search(manifest(room).read_text(encoding="utf-8")):
        wrong.append(f"{room}: its Cargo.toml names pyo3; only {sorted(CALLS_PYTHON)} may ask for the GIL")
    for path in sources(room):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(ROOT)
        code = re.sub(r"//.*", "", text)
        found = PYTHON_API.search(code) if room not in CALLS_PYTHON else None
        if found:
            wrong.append(f"{where}: {found.group()}; only {sorted(CALLS_PYTHON)} may call the interpreter")
        if re.search(r"\bunsafe\b", code) and room not in UNSAFE:
            wrong.append(f"{where}: unsafe; it lives in {sorted(UNSAFE)}")
    return wrong


# The first line of a function; what is before `fn` gives its indent.
FUNCTION = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)", re.M)


def functions(text: str) -> list[tuple[str, int]]:
    """Each function of a formatted source file and its lines: it ends with the brace that is as far in as it."""
    found = []
    for match in FUNCTION.finditer(text):
        indent = match[1]
        body = re.search(r"\{\}?$|;$", text[match.start() :], re.M)
        is_short = body is None or body[0] != "{"
        end = None if is_short else re.search(rf"^{indent}\}}", text[match.end() :], re.M)
        last = match.end() + end.end() if end else match.end()
        found.append((match[2], text.count("\n", match.start(), last) + 1))
    return found


def sizes(room: str) -> dict[str, tuple[int, int]]:
    """Lines and limit of each file and function of a room, by `path` and `path::function`."""
    found = {}
    for path in sources(room):
        text, where = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        found[where] = (text.count("\n"), MOST_LINES)
        for name, lines in functions(text):
            # Of several with one name, the longest.
            key = f"{where}::{name}"
            found[key] = max(found.get(key, (0, 0)), (lines, MOST_LINES_OF_FUNCTION))
    return found


def check_sizes(found: dict[str, tuple[int, int]]) -> list[str]:
    """The findings about the lengths of files and functions."""
    wrong = [f"LONG names {name}, which is not there" for name in LONG if name not in found]
    for name, (lines, most) in sorted(found.items()):
        allowed, _ = LONG.get(name, (most, ""))
        if lines > allowed:
            wrong.append(f"{name}: {lines} lines; wanted at most {allowed}: divide it by concept")
        elif name in LONG and lines <= most:
            wrong.append(f"{name}: {lines} lines are within the guide; take it from LONG")
        elif lines < allowed and name in LONG:
            wrong.append(f"{name}: {lines} lines, {allowed} are allowed; lower its number in LONG")
    return wrong


def check_cycles(room: str) -> list[str]:
    """The findings about the imports between a room's modules: none may be in a cycle."""
    src = manifest(room).parent / "src"
    edges = import_cycles.graph([path for path in (src / "lib.rs", src / "main.rs") if path.is_file()])
    return cycles_of(room, src, edges)


def cycles_of(name: str, folder: Path, edges: dict[Path, set[Path]]) -> list[str]:
    """A finding for each cycle of imports: the shortest way around it."""
    cycles = import_cycles.cycles(edges)
    ways = [" > ".join(str(path.relative_to(folder)) for path in import_cycles.shortest(edges, c)) for c in cycles]
    return [f"{name}: modules import each other: {way}; wanted imports in one way" for way in ways]


def check_tests(room: str) -> list[str]:
    """Findings for files of tests/it/ that its main.rs does not name: cargo would never build them."""
    folder = manifest(room).parent / "tests" / "it"
    main = folder / "main.rs"
    if not main.is_file():
        return []
    named = named_files(main.read_text(encoding="utf-8"))
    return [
        f"{room}: tests/it/{path} is not built: name it in tests/it/main.rs"
        for path in sorted(path.relative_to(folder) for path in folder.rglob("*.rs") if path.name != "mod.rs")
        if str(path.with_suffix("")) not in named | {"main"} and str(path.parent) not in named
    ]


def named_files(main: str) -> set[str]:
    """The files that a main.rs names, as paths: also those in its inline modules, which are folders."""
    found, folder = set(), ""
    for line in main.splitlines():
        if inline := re.match(r"mod (\w+) \{", line):
            folder = f"{inline[1]}/"
        elif line == "}":
            folder = ""
        elif file := re.match(r" *mod (\w+);", line):
            found.add(folder + file[1])
    return found


def layers(room: str) -> list[str]:
    """The top-level modules that a room's header lists, the highest first."""
    header = re.match(r"(?://!.*\n)+", (manifest(room).parent / "src/lib.rs").read_text(encoding="utf-8"))
    blocks = re.findall(r"//! ```text\n(.*?)//! ```", header.group() if header else "", re.S)
    return re.findall(r"^//! (\w+) ", blocks[-1], re.M) if blocks else []


def check_layers(room: str) -> list[str]:
    """The findings about a room's layers."""
    src = manifest(room).parent / "src"
    order = layers(room)
    wrong = []
    for file, imported in sorted(import_cycles.graph([src / "lib.rs"]).items()):
        own = file.relative_to(src).parts[0].removesuffix(".rs")
        if own != "lib" and own not in order:
            wrong.append(f"{room}: the layers in lib.rs, {', '.join(order)}, do not have {own}")
            continue
        above = order[: order.index(own)] if own in order else []
        for other in sorted(imported):
            if other.relative_to(src).parts[0].removesuffix(".rs") in above:
                wrong.append(f"{file.relative_to(ROOT)} imports {other.relative_to(src)}, a layer above it")
    return wrong


def main() -> int:
    """Prints findings; 0 if there are none."""
    known = {p.parent.name for p in (ROOT / "crates").glob("*/Cargo.toml")} | set(BESIDE)
    wrong = [f"crates/{room} is not in the picture of tools/check_rooms.py" for room in known - set(ROOMS)]
    wrong += [line for room in sorted(ROOMS) for line in check_room(room)]
    wrong += [line for room in sorted(ROOMS) for line in check_cycles(room)]
    wrong += cycles_of("python/dashcam", PACKAGE, import_cycles.python_graph(PACKAGE))
    wrong += check_sizes({name: size for room in ROOMS for name, size in sizes(room).items()})
    wrong += [line for room in sorted(ROOMS) for line in check_tests(room)]
    wrong += [line for room in sorted(LAYERED) for line in check_layers(room)]
    for line in wrong:
        print(f"rooms: {line}", file=sys.stderr)
    if not wrong:
        print(f"rooms: {len(ROOMS)} rooms as drawn")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
