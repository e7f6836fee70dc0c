"""A thread that calls small functions all the time is sampled while it runs, and each stack is judged by the calls
that the program makes: how many of those that are shown never were.

Each call is on a line of its own; `spin` runs two functions in turn whose frames have the same place."""

import os
import random
import re
import sys
import time

import probe

SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
WORDS = """
def c(n):
    return n * n
def b(n):
    x = c(n)  # c of b
    y = c(x)  # c of b
    return x + y
def g(n):
    yield c(n)  # c of g
    yield b(n)  # b of g
def a(n):
    x = b(n)  # b of a
    y = c(n)  # c of a
    return x - y
def d(n):
    x = c(n)  # c of d
    y = b(x & 7)  # b of d
    for z in g(n):  # g of d
        y += z
    return y
def spin():
    while True:
        a(7)  # a of spin
        d(8)  # d of spin
"""
CALLS = {
    (match[1], match[2], number)
    for number, line in enumerate(WORDS.splitlines(), 1)
    for match in [re.search("# (.) of (.+)", line)]
    if match
}


def is_possible(frames):
    """The frames are (name, line), the innermost first. A stack that ends within the thread's begin has lost those of
    its inner frames that moved."""
    names = [name for name, _ in frames]
    if "spin" not in names:
        return names[:1] == ["run"]
    own = frames[: names.index("spin") + 1]
    return all((callee, caller, line) in CALLS for (callee, _), (caller, line) in zip(own, own[1:]))


def main():
    space = {}
    exec(compile(WORDS, "moving", "exec"), space)
    probe.attach()
    thread = probe.start(space["spin"])
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        # Both run at once, where the machine lets them.
        os.sched_setaffinity(0, cpus[:1])
        os.sched_setaffinity(thread.native_id, cpus[1:2])
    time.sleep(0.05)
    shown, wrong, examples = dict.fromkeys(["still", "settled", "moving", "torn"], 0), {}, {}
    for _ in range(SAMPLES // 100):
        arguments = [probe.ctypes.c_uint32(number) for number in (thread.native_id, 100, random.randrange(1, 400))]
        for line in probe.text(probe.lib.probe_moving, *arguments).splitlines():
            times, kind, *frames = line.split("\t")
            shown[kind] += int(times)
            pairs = list(zip(frames[::2], map(int, frames[1::2])))
            if pairs and not is_possible(pairs):
                wrong[kind] = wrong.get(kind, 0) + int(times)
                key = kind + " " + " < ".join("%s:%d" % pair for pair in pairs)
                examples[key] = examples.get(key, 0) + int(times)
    print("%d.%d" % sys.version_info[:2], shown, "of these impossible:", wrong)
    for key, times in sorted(examples.items(), key=lambda item: -item[1])[:8]:
        print("  ", times, key)
    assert not wrong.get("still"), "of a thread that did not run"
    assert 50 * sum(wrong.values()) <= sum(shown.values()), wrong


main()
