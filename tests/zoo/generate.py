#!/usr/bin/env python3
"""Makes sick programs from a seed: the same seed, the same programs.

Drawn for each: a mechanism (mechanisms.py), the shape (the guilty function is called directly, or
lies three calls away in a library in another folder, or is called back by C code, or works in
another thread), the server, the load, how long and how often, names without a meaning, and
distractions in the process: hot code, a contended lock that does no harm, threads that idle,
garbage, calls to a quick peer.

    OUT/programs/<case>/    the program; with the word `healthy` it is its twin
    OUT/answers/<case>.json the right answer, which dashcam never sees (keys: see cases.py)

    python generate.py --seed 7 --count 66 --out /tmp/made && python run.py --generated /tmp/made
"""

from __future__ import annotations

import argparse
import itertools
import json
import keyword
import os
import random
import re
import shutil
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mechanisms
import mechanisms_loop  # noqa: F401  (registers its own)
import mechanisms_more  # noqa: F401
import mechanisms_others  # noqa: F401
from mechanisms import Ill

HERE = Path(__file__).resolve().parent
SHAPES = ("direct", "library", "callback", "thread")
MODULES = (
    "asyncio atexit fcntl functools gc hashlib importlib itertools json logging mmap multiprocessing os queue random re"
    " select shutil socket sqlite3 subprocess sys tempfile threading time urllib.request zlib"
).split()
# How C code calls a function back. `F` is the function.
CALLBACKS = (
    "list(map(F, [n]))",
    "sorted([n], key=F)",
    "functools.reduce(lambda a, b: F(b), [n], n)",
    "json.loads('{}', object_hook=lambda found: F(n))",
    "re.sub('x', lambda found: F(n) or '', 'x')",
)
THREADS = (
    "@crew.submit(F, n).result()",
    "@t = threading.Thread(target=F, args=(n,))\n@t.start()\n@t.join()",
)
# Distractions: at module level, and in each request.
NOISE: dict[str, tuple[str, str]] = {
    "hot": ("def @hot(n):\n    return sum(i * i for i in range(9000 + n % 7))", "@hot(n)"),
    "contended": (
        "@busy = threading.Lock()\ndef @tick():\n    while True:\n        with @busy:\n"
        "            time.sleep(0.001)\n        time.sleep(0.004)\nSTART(@tick)",
        "with @busy:\n    pass",
    ),
    "idle": (
        "@never, @empty = threading.Event(), queue.Queue()\nSTART(@never.wait)\nSTART(@empty.get)\n"
        "def @beat():\n    while True:\n        time.sleep(0.2)\nSTART(@beat)",
        "",
    ),
    "garbage": ("", "@junk = [{'k': [i]} for i in range(400)]"),
    "quick": (
        "@near, @far = socket.socketpair()\n@turn = threading.Lock()\ndef @echo():\n"
        "    while @far.recv(1):\n        @far.send(b'y')\nSTART(@echo)",
        "with @turn:\n    @near.send(b'x')\n    @near.recv(1)",
    ),
    "batch": (
        "def @roll():\n    while True:\n        time.sleep(0.4)\n"
        "        hashlib.pbkdf2_hmac('sha256', b'x', b'y', 15_000)\nSTART(@roll)",
        "",
    ),
}
ON_LOOP = ("hot", "idle", "garbage", "batch")


class Names:
    """Names without a meaning, each drawn once."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.taken = draw, set(sys.stdlib_module_names)
        self.known: dict[str, str] = {}

    def fresh(self) -> str:
        """A new name."""
        while True:
            parts = self.draw.choice((2, 3))
            word = "".join(self.draw.choice("bdfgklmnprstvz") + self.draw.choice("aeiou") for _ in range(parts))
            word += self.draw.choice(("", "", "n", "r", "l", "k"))
            if word not in self.taken and not keyword.iskeyword(word):
                self.taken.add(word)
                return word

    def of(self, marked: str) -> str:
        """The same name for the same `@name`."""
        if marked not in self.known:
            self.known[marked] = self.fresh()
        return self.known[marked]

    def put(self, text: str) -> str:
        """Text with its `@names` replaced."""
        return re.sub(r"@([a-z]+)", lambda found: self.of(found[1]), text)


@dataclass
class Program:
    """One case while it is drawn."""

    name: str
    ill: Ill
    shape: str
    server: str
    draw: random.Random
    names: Names
    noise: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def is_task(self) -> bool:
        """Whether the functions are coroutines."""
        return self.ill.servers == ("loop",) and ("await" in self.ill.sick or "async with" in self.ill.sick)


def block(text: str, depth: int = 1) -> str:
    """Indented; `pass` when there is nothing."""
    return textwrap.indent(text or "pass", "    " * depth)


def imports(text: str) -> str:
    """The modules that a text uses."""
    used = [m for m in MODULES if re.search(rf"\b{re.escape(m)}\.", text)]
    more = ["from concurrent.futures import ThreadPoolExecutor"] if "ThreadPoolExecutor" in text else []
    return "\n".join([*(f"import {m}" for m in used), *more])


def started(text: str, begun: list[str]) -> str:
    """Removes `START(f)`, the threads to be started, from a text."""
    begun += re.findall(r"^START\((.+)\)$", text, re.M)
    return re.sub(r"^START\(.+\)\n?", "", text, flags=re.M)


def guilty(program: Program) -> str:
    """The guilty function, and the culprit with its thread."""
    ill, word = program.ill, "async def" if program.is_task else "def"
    same = ill.every or ill.sick == ill.fixed
    body = ill.sick if same else f"if SICK:\n{block(ill.sick)}\nelse:\n{block(ill.fixed)}"
    parts = [ill.setup, f"{word} @guilty(n=0):\n{block(body)}"]
    if ill.holder:
        parts.append(f"{word} @holder(*_):\n{block(ill.holder)}")
    if ill.holder and (ill.around or "pool" not in ill.cause) and ill.cause != "deadlock-timeout":
        call = "@holder()"
        if program.shape == "callback" and not program.is_task:
            call = program.draw.choice(CALLBACKS[:2]).replace("F", "@holder").replace("[n]", "[0]")
        around = (ill.around or "KEEP").replace("KEPT", "@holder")
        around = re.sub(r"\bKEEP\b", ("await " if program.is_task else "") + call, around)
        period = round(program.draw.uniform(1.2, 1.9), 2)
        pause = f"await asyncio.sleep({period})" if program.is_task else f"time.sleep({period})"
        parts.append(f"{word} @round():\n    while True:\n        {pause}\n{block(around, 2)}")
    return "\n\n\n".join(part for part in parts if part)


def called(program: Program, function: str) -> str:
    """How the request calls a function in this shape."""
    if program.is_task:
        return f"await {function}(n)"
    form = "F(n)"
    if program.shape == "callback":
        form = program.draw.choice(CALLBACKS)
    elif program.shape == "thread":
        form = program.draw.choice(THREADS)
    return re.sub(r"\bF\b", function, form)


def library(program: Program, heart: str) -> tuple[str, str]:
    """Two modules in a folder of their own; returns how to import the outer one, and its
    function.
    """
    names, word = program.names, "async def" if program.is_task else "def"
    wait = "await " if program.is_task else ""
    inner, outer = names.fresh(), names.fresh()
    head = "import service\nimport beside\n\nSICK = service.SICK\n"
    program.files[f"{names.of('folder')}/{inner}.py"] = names.put(f"{imports(heart)}\n{head}\n\n{heart}\n")
    text = (
        f"import {inner}\n\n\n{word} @mid(n):\n    return {wait}{inner}.@guilty(n)\n\n\n"
        f"{word} @outer(n):\n    return {wait}@mid(n)\n"
    )
    program.files[f"{names.of('folder')}/{outer}.py"] = names.put(text)
    names.known["heart"] = inner
    return f"import {inner}\nimport {outer}", f"{outer}.@outer"


def main_module(program: Program) -> str:
    """The text of the program itself."""
    ill, draw, names = program.ill, program.draw, program.names
    word, wait = ("async def", "await ") if program.server == "loop" else ("def", "")
    begun: list[str] = []
    heart, use, holder_of = guilty(program), "@guilty", ""
    has_round = "def @round" in heart
    if program.shape == "library":
        brought, use = library(program, heart)
        holder_of, heart = f"{names.known['heart']}.", ""
    else:
        brought = ""
    noise = [started(NOISE[kind][0], begun) for kind in program.noise]
    each = [NOISE[kind][1] for kind in program.noise if NOISE[kind][1]]
    call = called(program, use)
    every = draw.randint(24, 44)
    phase = draw.randrange(5, every)
    trouble = call if ill.every else f"if n % {every} == {phase}:\n{block(call)}"
    hands = "@crew = ThreadPoolExecutor(8)" if "@crew.submit" in call and "@crew" not in ill.setup else ""
    before = draw.random() < 0.5
    steps = [*each, "@base = service.honest_work(n)"]
    steps = [trouble, *steps] if before else [*steps, trouble]
    if "@guilty" in call and program.shape != "library" and draw.random() < 0.6:
        # A function in between, so that the depth varies.
        heart += f"\n\n\n{'async def' if program.is_task else 'def'} @between(n):\n{block(call)}"
        steps[steps.index(trouble)] = trouble.replace(call, f"{'await ' if program.is_task else ''}@between(n)")
    ending = [f"def @begin():\n{block(ill.begin)}"] if ill.begin else []
    parts = [brought, hands, *noise, heart, f"{word} @answer(n):\n{block(chr(10).join(steps))}\n    return str(@base)"]
    body = "\n\n\n".join(part for part in [*parts, *ending] if part)
    background = f"{holder_of}@round" if has_round else ""
    body += "\n\n\n" + ending_of(program, begun, background)
    prelude = (
        "import os\nimport sys\n\n"
        f"sys.path[:0] = [{str(HERE)!r}, os.path.join(os.path.dirname(os.path.abspath(__file__)), '@folder')]\n"
    )
    head = f"{prelude}{imports(body)}\nimport beside\nimport service\n\nSICK = service.SICK\n"
    return names.put(f"{head}\n\n{body}")


def ending_of(program: Program, begun: list[str], background: str) -> str:
    """The lines under `if __name__`."""
    task = program.is_task and background
    threads = [*begun, *([background] if background and not task else [])]
    lines = [f"threading.Thread(target={one}, daemon=True).start()" for one in threads]
    lines += ["@begin()"] if program.ill.begin else []
    begin = f"def @start():\n{block(chr(10).join(lines))}\n\n\n"
    loop = program.draw.choice(("asyncio", "uvloop"))
    serve = {
        "gunicorn": "service.gunicorn(@answer, begin=@start)",
        "pooled": f"@start()\nservice.fastapi(@answer, loop={loop!r})",
        "loop": f"@start()\nservice.fastapi(@answer, {background + ', ' if task else ''}loop={loop!r})",
    }.get(program.server, f"@start()\nservice.{program.server}(@answer)")
    return f"{begin}if __name__ == '__main__':\n{block(serve)}\n"


def draw_one(seed: int, index: int, kind: str, shape: str, server: str) -> Program:
    """One program, complete."""
    draw = random.Random(f"{seed} {index} {kind}")
    ill = mechanisms.ILLS[kind](draw)
    program = Program(f"{ill.cause}_{index:03}", ill, shape, server, draw, Names(draw))
    choice = ON_LOOP if server == "loop" else tuple(NOISE)
    program.noise = sorted(draw.sample(choice, draw.choice((0, 1, 2, 2, 3))))
    program.names.of("main")
    text = main_module(program)
    program.files[f"{program.names.of('main')}.py"] = text
    if ill.peer:
        program.files["peer.py"] = ill.peer
    return program


def answer_of(program: Program, seed: int, kind: str) -> dict[str, Any]:
    """The answer that the verdict is compared with."""
    ill, draw, names = program.ill, program.draw, program.names
    inner = names.known["heart"] if program.shape == "library" else names.of("main")

    def places(marked: tuple[str, ...]) -> list[dict[str, str]]:
        return [{"function": names.put(one), "file": f"{inner}.py"} for one in marked]

    where = places(ill.places) if ill.judge_where else []
    culprit = places(ill.blamed) if ill.holder else []
    then = {"cause": ill.then, "where": places((ill.then_place,))[0]} if ill.then else None
    return {
        "cause": ill.cause,
        "accept": ill.accept,
        "where": where[0] if where else None,
        "where_also": where[1:],
        "culprit": culprit[0] if culprit else None,
        "culprit_also": culprit[1:],
        "then": then,
        "settings": ill.settings,
        "needs": ill.needs or None,
        "slow": f"{ill.slow_ms}ms",
        "seconds": 6,
        "server": ["{python}", f"{names.of('main')}.py"],
        "load": {"connections": draw.randint(3, 7), "rate": draw.randint(28, 55), "paths": ["/"]},
        "min_slow": 2,
        "settle": 1 if program.server in ("gunicorn", "loop", "pooled") else 0,
        "drawn": {
            "seed": seed,
            "mechanism": kind,
            "shape": "extension" if ill.extension and program.shape == "direct" else program.shape,
            "server": program.server,
            "noise": program.noise,
        },
    }


def plan(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Mechanism, shape and server of each: every mechanism once before any twice, every cause in as
    many shapes as possible."""
    draw = random.Random(seed)
    used: Counter[tuple[str, str]] = Counter()
    servers: Counter[str] = Counter()
    out: list[tuple[str, str, str]] = []
    for _ in itertools.count():
        kinds = sorted(mechanisms.ILLS)
        draw.shuffle(kinds)
        for kind in kinds:
            if len(out) == count:
                return out
            ill = mechanisms.ILLS[kind](random.Random(0))
            shapes = [*ill.shapes]
            draw.shuffle(shapes)
            shape = min(shapes, key=lambda s: used[ill.cause, s] + 2 * used[kind, s])
            choice = [*ill.servers]
            draw.shuffle(choice)
            server = min(choice, key=lambda s: servers[s])
            used[ill.cause, shape] += 1
            used[kind, shape] += 1
            servers[server] += 1
            out.append((kind, shape, server))
    return out


def write(seed: int, count: int, out: Path, only: str = "") -> list[str]:
    """Writes the programs; returns their names. The folder is emptied first."""
    for part in ("programs", "answers"):
        shutil.rmtree(out / part, ignore_errors=True)
        (out / part).mkdir(parents=True)
    names = []
    for index, (kind, shape, server) in enumerate(plan(seed, count)):
        program = draw_one(seed, index, kind, shape, server)
        answer = answer_of(program, seed, kind)
        if not re.search(only, kind):
            continue
        for path, text in program.files.items():
            target = out / "programs" / program.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
            if path.endswith(".py"):
                compile(text, path, "exec")
        (out / "answers" / f"{program.name}.json").write_text(json.dumps(answer, indent=1), "utf-8")
        names.append(program.name)
    # Programs may be run as another user: they write beside themselves.
    for folder, _, _ in os.walk(out):
        os.chmod(folder, 0o777)
    return names


def main() -> int:
    """Prints the names of the cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=70)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="regular expression over the mechanisms' names")
    options = parser.parse_args()
    print("\n".join(write(options.seed, options.count, options.out, options.only)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
