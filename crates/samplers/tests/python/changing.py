"""Everything that moves, while a native thread samples all of it as fast as it can: threads born
and dying, deep recursion, code made and freed, generators, exceptions, garbage collection, locks,
subinterpreters born, run by their maker or by another thread, and dying.
Nothing may crash, and the counters must say what was lost."""

import gc
import random
import re
import sys
import threading
import time

import probe

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
end = 0.0
lock = threading.Lock()
count = dict.fromkeys(["births", "codes", "dives", "collections", "generators", "interpreters"], 0)


def births():
    while time.monotonic() < end:
        threads = [threading.Thread(target=dive, args=(random.randrange(50),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count["births"] += 8


def dive(depth):
    if depth:
        return dive(depth - 1)
    with lock:
        return time.sleep(0.0001)


def dives():
    while time.monotonic() < end:
        dive(random.randrange(800))
        count["dives"] += 1


def codes():
    number = 0
    while time.monotonic() < end:
        number += 1
        name = "f%d" % (number % 7000)
        space = {}
        pad = "\n" * (number % 50)
        source = "%sdef %s(n):\n    return n and %s(n - 1)\n" % (pad, name, name)
        exec(compile(source, "<made %d>" % (number % 100), "exec"), space)
        space[name](random.randrange(20))
        space.clear()
        count["codes"] += 1


def nest(depth):
    if depth:
        yield from nest(depth - 1)
    yield depth


def generators():
    while time.monotonic() < end:
        try:
            for value in nest(random.randrange(60)):
                if random.random() < 0.02:
                    raise ValueError(value)
        except ValueError:
            pass
        count["generators"] += 1


def collections():
    while time.monotonic() < end:
        ring = [[] for _ in range(2000)]
        for item in ring:
            item.append(ring)
        del ring, item
        gc.collect()
        count["collections"] += 1


# On lines that no string has which `site` executes in a new interpreter.
LIVES = "\n" * 1000 + """
def lives(depth):
    return depth and lives(depth - 1)

for _ in range(300):
    lives(30)
"""


def enters(number):
    interpreters.run_string(number, LIVES)


def interpreters_born():
    while time.monotonic() < end:
        number = interpreters.create()
        for _ in range(5):
            enters(number)
        by_another = threading.Thread(target=enters, args=(number,))
        by_another.start()
        by_another.join()
        interpreters.destroy(number)
        count["interpreters"] += 1


def callers_of(name, first_line, line):
    """None, or the names of all who really call `name`, and whether it can be on that line."""
    if name == "lives":
        return {"lives", "<module>"}, line in (1002, 1003)
    if name == "<module>":
        return {"enters"} if line in (1005, 1006) else None, True
    if re.fullmatch(r"f\d+", name):
        return {name, "codes"}, line in (first_line, first_line + 1)
    own = {
        "dive": {"dive", "dives", "run", "Thread.run"},
        "nest": {"nest", "generators"},
        "enters": {"interpreters_born", "run", "Thread.run"},
    }
    return own.get(name), True


def check_edges():
    """A stack put together from two instants would show a call that this program never makes. How
    many calls could be checked, and how many of them from one interpreter into another."""
    edges = probe.text(probe.lib.probe_edges).splitlines()
    checked = between_interpreters = 0
    for edge in edges[:-1]:
        name, file, first_line, line, caller, *_ = edge.split("\t")
        callers, line_fits = callers_of(name, int(first_line), int(line))
        known = file == probe.SCRIPT if name in ("lives", "<module>") else file == __file__
        if callers is None or not (known or file.startswith("<made") and name != "<module>"):
            continue
        assert caller in callers and line_fits, edge
        checked += 1
        between_interpreters += name == "<module>"
    return checked, between_interpreters


LOOPS = (births, dives, codes, codes, generators, collections, interpreters_born)


def changing():
    """What the sampler says of one."""
    global end
    end = time.monotonic() + SECONDS
    probe.lib.probe_changing_start()
    threads = [probe.start(f) for f in LOOPS]
    for thread in threads:
        thread.join(SECONDS + 60)
        assert not thread.is_alive()
    return probe.text(probe.lib.probe_changing_stop)


def main():
    sys.setrecursionlimit(3000)
    sys.setswitchinterval(0.0005)
    probe.attach()
    # On a busy machine one changing may be sampled too seldom to say anything.
    passes = frames = 0
    for _ in range(15):
        report, (checked, between) = changing(), check_edges()
        print(report, count, "calls checked:", checked, "between interpreters:", between)
        more_passes, more_frames, stacks, torn = (
            int(re.search(word + r"[=:] ?(\d+)", report).group(1))
            for word in (r"\bpasses", r"\bframes", r"\bstacks", r"torn_stacks")
        )
        passes, frames = passes + more_passes, frames + more_frames
        if checked > 10 and between and passes > 50 and frames > 1000:
            break
    assert checked > 10 and passes > 50 and frames > 1000, (checked, passes, frames)
    assert between, "no stack through two interpreters in %d passes" % passes
    assert torn * 4 < stacks, "more than a quarter of the stacks torn: " + report


main()
