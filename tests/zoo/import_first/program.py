"""The first request of a kind imports a module that is long to load. The twin imported it before."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

import importlib  # noqa: E402
import tempfile  # noqa: E402

folder = tempfile.mkdtemp()
for i in range(4):
    with open(os.path.join(folder, f"atlas{i}.py"), "w") as file:
        file.write("table = {}\n" + "".join(f"table[{k}] = [{k}, {k} + 1, '{k}']\n" for k in range(40_000)))
sys.path.insert(0, folder)
sys.dont_write_bytecode = True
if not service.SICK:
    for i in range(4):
        importlib.import_module(f"atlas{i}")


def consult(i: int) -> int:
    return len(importlib.import_module(f"atlas{i}").table)


def answer(n: int) -> str:
    return str(consult(n // 90 % 4) if n % 90 == 45 else service.honest_work(n))


if __name__ == "__main__":
    service.plain(answer)
