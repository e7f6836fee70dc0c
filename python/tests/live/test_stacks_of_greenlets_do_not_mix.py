"""Greenlets that switch as fast as they can while stacks are read: the process survives, and no
stack mixes two of them."""

from __future__ import annotations

import collections
from pathlib import Path

import dashcam
import pyarrow
from conftest import Bench

# greenlet comes with SQLAlchemy. Two threads; on each, pairs of greenlets that switch to each other
# 1,000 times, at a random depth, and end: one by itself, the other because its last reference goes.
PROGRAM = """
    import random, threading, time
    import dashcam
    from greenlet import greenlet

    def left(depth, other): return left(depth - 1, other) if depth else left_turns(other)
    def left_turns(other):
        for _ in range(1000): left_hands_over(other)
    def left_hands_over(other): other().switch()

    def right(depth, other): return right(depth - 1, other) if depth else right_turns(other)
    def right_turns(other):
        while True: right_hands_over(other)
    def right_hands_over(other): other().switch()

    enough = threading.Event()
    def pairs():
        while not enough.is_set():
            one_pair(random.randrange(40))
    def one_pair(depth):
        first = greenlet(lambda: left(depth, lambda: second))
        second = greenlet(lambda: right(depth, lambda: first))
        first.switch()
        assert first.dead and not second.dead

    # As many sampled as there can be.
    dashcam.start(slow="10m", rate_hz=1000, budget_percent=100, switches=False)
    threads = [threading.Thread(target=pairs) for _ in range(2)]
    for thread in threads: thread.start()
    end = time.monotonic() + 2
    while time.monotonic() < end or dashcam.status()["sampler"]["samples"] < 1000: time.sleep(0.05)
    path = dashcam.snap()
    enough.set()
    for thread in threads: thread.join()
    print(path)
"""
LAMBDA = "<lambda>"
# The callers of each function. A greenlet's first function has no caller.
CALLERS = {
    "left": {"left", LAMBDA}, "left_turns": {"left"}, "left_hands_over": {"left_turns"},
    "right": {"right", LAMBDA}, "right_turns": {"right"}, "right_hands_over": {"right_turns"},
    LAMBDA: {"left_hands_over", "right_hands_over"}, "one_pair": {"pairs"}, "pairs": {"run"},
}


def test_no_stack_mixes_two_greenlets_and_few_are_torn(bench: Bench) -> None:
    result = bench.python(PROGRAM)
    assert (result.returncode, result.stdout.count("\n")) == (0, 1), result
    capture = dashcam.open(Path(bench.folder, result.stdout.strip()))
    stacks: dict[int, list[str]] = collections.defaultdict(list)
    for frame in pyarrow.table(capture.tables["frames"]).to_pylist():
        stacks[frame["stack_id"]].append(frame["function"])
    sampled = [row["stack_id"] for row in pyarrow.table(capture.tables["samples"]).to_pylist()]
    seen = collections.Counter(side for stack in sampled for side in sides(stacks.get(stack, [])))
    mixed = [stack for stack in stacks.values() if len(sides(stack)) > 1]
    assert not mixed, mixed[:3]
    assert seen["left"] > 100 and seen["right"] > 100, seen
    for stack in stacks.values():
        for callee, caller in zip(stack, stack[1:]):
            assert caller in CALLERS.get(callee, {caller}), stack
    torn = capture.summary()["meta"]["losses"]["stacks_torn"]
    assert torn <= 0.02 * len(sampled), f"{torn} torn of {len(sampled)} sampled"


def sides(stack: list[str]) -> set[str]:
    """The greenlets whose functions are in it."""
    return {function.split("_")[0] for function in stack if function.startswith(("left", "right"))}
