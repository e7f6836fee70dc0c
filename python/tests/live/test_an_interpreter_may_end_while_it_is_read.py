"""A program that ends at any moment, while its daemon threads compute, allocate and record, ends as
it would without dashcam: with its own exit code, and no line of dashcam on stderr."""

from __future__ import annotations

import random
import sys

import pytest
from conftest import Bench

PROGRAM = """
    import os, sys, threading, time
    import dashcam

    ending, seconds, calls = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    sys.setswitchinterval(0.001)
    sys.setrecursionlimit(5000)

    class Knot:
        def __del__(self): self.ends = sum(range(50))
    def dives(depth=0): return dives(depth + 1) if depth < 2000 else depth
    def computes(): return sum(i * i for i in range(3000))
    def allocates():
        # Few: who collects them runs a method of each, and gives the GIL away each time.
        knots = [Knot() for _ in range(10)]
        for knot in knots: knot.others = knots
    def records():
        with dashcam.request("GET /"), dashcam.span("step", number=7): dashcam.event("seen", key="k")
    def for_ever(work):
        while True: work()

    # As many looks as there can be: one is on its way whenever the interpreter ends.
    dashcam.start(slow="10m", rate_hz=1000, budget_percent=100)
    for number in range(20):
        work = [dives, computes, allocates, records][number % 4]
        threading.Thread(target=for_ever, args=(work,), daemon=True).start()
    # A moment that neither side chose.
    time.sleep(seconds)
    while calls: calls = dives() and calls - 1
    print(dashcam.status()["sampler"]["samples"], flush=True)
    getattr(*{"exit": (sys, "exit"), "_exit": (os, "_exit")}[ending])(0)
"""


@pytest.mark.parametrize("seed", range(1, 21))
def test_whenever_it_ends_nothing_of_ours_is_in_the_way(bench: Bench, seed: int) -> None:
    moment = random.Random(seed)
    seconds, calls = moment.choice([0.0, moment.random() * 0.5]), moment.randrange(3)
    program = bench.write("program.py", PROGRAM)
    ending = "_exit" if seed == 20 else "exit"
    words = [sys.executable, "-W", "error", str(program), ending, f"{seconds:.4f}", str(calls)]
    result = bench.run(words)
    assert (result.returncode, result.stderr) == (0, ""), (words, result)
