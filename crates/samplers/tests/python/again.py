"""A stack that is sampled again and again while it grows, shrinks and changes is at every sample what
CPython says it is: nothing of an earlier sample may be left in it. Deterministic; nothing else runs while
the reader samples (it is called with the GIL held), so every difference is the reader's."""

import random
import re
import sys
import threading

import probe

# Looks a seed.
SAMPLES = 300
samples = 0
rounds = 0


def sample():
    """From here on down CPython and the reader are asked at the same lines."""
    caller = probe.chain(sys._getframe(1))
    ours, _ = probe.stack(threading.get_native_id(), 4096, probe.held)
    mine = ours[-len(caller):]
    assert mine == caller, first_difference(mine, caller)
    assert len(ours) == len(caller) + 3, (len(ours), len(caller))
    global samples
    samples += 1


def first_difference(ours, theirs):
    return next((i, a, b) for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)


def plain(steps, rest):
    if steps:
        return plain(steps - 1, rest)
    rest()
    sample()


def branches(steps, rest, which):
    if steps and which % 2:
        return branches(steps - 1, rest, which // 2)
    if steps:
        branches(steps - 1, rest, which // 2)
        return None
    sample()
    rest()
    sample()


def wide(steps, rest, *many):
    """Frames of many sizes, so that chunks end at other places."""
    if steps:
        return wide(steps - 1, rest, *many, steps, steps)
    rest()
    sample()


def generator(steps, rest):
    if steps:
        yield from generator(steps - 1, rest)
    else:
        rest()
        sample()
    yield steps


def by_generator(steps, rest):
    for _ in generator(steps, rest):
        sample()


def through_c(steps, rest):
    """Calls through C: entry trampolines in 3.12 and later."""
    if steps:
        return max([steps], key=lambda _: through_c(steps - 1, rest) or 0)
    rest()
    sample()


class Callable:
    def __init__(self, steps, rest):
        if steps:
            Callable(steps - 1, rest)
            return
        rest()
        sample()


def made(steps, rest, number):
    """Code that is freed behind its call: the next one may lie at its address."""
    space = {"rest": rest, "sample": sample}
    source = "%sdef f%d(n):\n    if n: return f%d(n - 1)\n    rest()\n    sample()\n" % (
        "\n" * (number % 7), number, number)
    exec(compile(source, "<made %d>" % (number % 5), "exec"), space)
    space["f%d" % number](steps)
    space.clear()


def reborn():
    """Code that was on the stack at the last sample and is freed, and other code born at its address that
    is never called: nothing on the stack vouches for it, and the stack is told all the same. How often
    an address was met again."""
    met = 0
    # Names of one length: nothing else tells the files apart.
    for turn in range(90):
        if met == 10:
            break
        space = {"sample": sample}
        exec(compile("def was():\n    sample()\n", "<was %d>" % (10 + turn), "exec"), space)
        address = id(space["was"].__code__)
        space["was"]()
        del space["was"]
        born = []
        for _ in range(30):
            exec(compile("def born():\n    sample()\n", "<born>", "exec"), space)
            born.append(space.pop("born").__code__)
            if id(born[-1]) == address:
                met += 1
                break
        sample()
        sample()
    return met


def wander(dice, budget):
    """A random tree of calls; the same way down is gone several times, so that samples meet themselves."""
    if budget <= 0:
        sample()
        return
    steps = dice.choice([0, 1, 1, 2, 3, 7, 20, 90])
    steps = min(steps, budget)

    def rest():
        wander(dice, budget - steps - 1)

    kind = dice.randrange(7)
    for _ in range(dice.choice([1, 1, 2, 3])):
        if kind == 0:
            plain(steps, rest)
        elif kind == 1:
            branches(steps, rest, dice.getrandbits(16))
        elif kind == 2:
            wide(min(steps, 40), rest)
        elif kind == 3:
            by_generator(min(steps, 40), rest)
        elif kind == 4:
            through_c(min(steps, 20), rest)
        elif kind == 5:
            Callable(min(steps, 20), rest)
        else:
            made(steps, rest, dice.randrange(1000))
        if samples > SAMPLES * rounds:
            return


def main():
    global rounds
    sys.setrecursionlimit(6000)
    probe.attach()
    for seed in range(8):
        rounds += 1
        dice = random.Random(seed)
        while samples < SAMPLES * rounds:
            wander(dice, dice.randrange(20, 500))
    met = reborn()
    report = probe.text(probe.lib.probe_counters)
    same = int(re.search(r"same_stacks: (\d+)", report).group(1))
    print("samples:", samples, "born where others died:", met, report)
    assert samples >= 8 * SAMPLES and 0 < same < samples, report


threading.stack_size(256 << 20)
failed = []


def run():
    try:
        main()
    except BaseException as error:  # told by the thread that started it
        failed.append(error)
        raise


thread = threading.Thread(target=run)
thread.start()
thread.join()
sys.exit(1 if failed else 0)
