"""Who holds the GIL, which futex is its own, and who holds the lock a thread waits for."""

import contextlib
import ctypes
import sys
import threading
import time

import probe


def holder_of(tid):
    return probe.text(probe.lib.probe_lock_holder, ctypes.c_uint32(tid))


def the_gil():
    own = threading.get_native_id()
    assert probe.held.probe_gil_holder() == own
    stop = []

    def spin():
        while not stop:
            pass

    spinners = [probe.start(spin) for _ in range(2)]
    tids = {thread.native_id for thread in spinners}
    seen = set()
    waited = 0
    # On a busy machine a thread that was just told the GIL is free may stay runnable for long.
    deadline = time.monotonic() + 30
    samples = 0
    while samples < 100 or ((not waited or not tids <= seen) and time.monotonic() < deadline):
        samples += 1
        seen.add(probe.lib.probe_gil_holder_after(ctypes.c_uint64(200)))
        waited += sum(probe.lib.probe_waits_for_gil(ctypes.c_uint32(tid)) == 1 for tid in tids)
    stop.append(1)
    assert tids <= seen, (seen, tids)
    assert seen <= tids | {own, 0}, (seen, tids, own)
    assert waited > 0, "no spinner was ever seen in a GIL futex"
    lock = threading.Lock()
    lock.acquire()
    waiter = probe.start(lock.acquire)
    probe.until(lambda: probe.waiting(waiter.native_id), "a lock's futex is not the GIL's")
    lock.release()


def hold_and_wait(lock, hold, take, expected, how):
    """One thread runs `hold(lock, inside, leave)`, another `take(lock)`."""
    inside, leave = threading.Event(), threading.Event()
    holder = probe.start(hold, lock, inside, leave)
    assert inside.wait(20)
    waiter = probe.start(take, lock)
    probe.until(lambda: probe.waiting(waiter.native_id), hold.__name__ + take.__name__)
    # Waiting may have just begun: /proc tells of it before the futex call is entered again.
    answer = holder_of(waiter.native_id)
    wanted = "%d %s %d" % (holder.native_id, how, id(lock)) if expected else "none"
    assert answer == wanted, (hold.__name__, take.__name__, answer, wanted)
    leave.set()
    holder.join(20)
    waiter.join(20)
    assert not holder.is_alive() and not waiter.is_alive()


def with_body(lock, inside, leave):
    with lock:
        inside.set()
        leave.wait()


def deep_below(lock, inside, leave, depth=40):
    def down(n):
        if n:
            down(n - 1)
        else:
            inside.set()
            leave.wait()

    for _ in range(1):
        with threading.Lock():
            with lock:
                try:
                    down(depth)
                finally:
                    depth = 0


def through_c(lock, inside, leave):
    """The body calls back through C, so the frame's stack pointer is not saved."""
    with lock:
        sorted([0], key=lambda _: (inside.set(), leave.wait()))


def in_handler(lock, inside, leave):
    with lock:
        try:
            raise ValueError
        except ValueError:
            inside.set()
            leave.wait()


def in_generator(lock, inside, leave):
    def body():
        with lock:
            inside.set()
            leave.wait()
            yield

    for _ in body():
        pass


def by_acquire(lock, inside, leave):
    lock.acquire()
    inside.set()
    leave.wait()
    lock.release()


@contextlib.contextmanager
def section(lock):
    """Takes it by hand, for who is inside."""
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def nested(lock):
    with lock:
        yield


class Guard:
    """Takes its lock when it is entered."""

    def __init__(self, lock):
        self.name, self._lock = "guard", lock

    def __enter__(self):
        self._lock.acquire()
        return self

    def __exit__(self, *_):
        self._lock.release()

    def inside(self, inside, leave):
        inside.set()
        leave.wait()


class Other(Guard):
    """Has the lock, but not since it was entered."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.name = ""


def by_section(lock, inside, leave):
    with section(lock):
        inside.set()
        leave.wait()


def by_nested(lock, inside, leave):
    with nested(lock):
        sorted([0], key=lambda _: (inside.set(), leave.wait()))


def by_guard(lock, inside, leave):
    with Guard(lock):
        inside.set()
        leave.wait()


def by_condition(lock, inside, leave):
    with threading.Condition(lock):
        inside.set()
        leave.wait()


def by_exit_stack(lock, inside, leave):
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyError))
        stack.enter_context(lock)
        stack.callback(int)
        inside.set()
        leave.wait()


def by_stacked_section(lock, inside, leave):
    """More entries than a block of the deque has room for, and some taken off again."""
    with contextlib.ExitStack() as stack:
        for _ in range(70):
            stack.callback(int)
        stack.enter_context(section(lock))
        inside.set()
        leave.wait()


def by_callback(lock, inside, leave):
    with contextlib.ExitStack() as stack:
        lock.acquire()
        stack.callback(lock.release)
        inside.set()
        leave.wait()


class Waits:
    """Keeps who enters it waiting."""

    def __init__(self, inside, leave):
        self.inside, self.leave = inside, leave

    def __enter__(self):
        self.inside.set()
        self.leave.wait()

    def __exit__(self, *_):
        pass


def while_entering_more(lock, inside, leave):
    with contextlib.ExitStack() as stack:
        stack.enter_context(section(lock))
        stack.enter_context(Waits(inside, leave))


def left_exit_stack(lock, inside, leave):
    """What was taken off the stack has been left."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock)
        stack.close()
        by_acquire(lock, inside, leave)


def by_method(lock, inside, leave):
    """What a method of the object does with the lock is not known: a Condition's `wait` lets it go."""
    with Guard(lock) as guard:
        guard.inside(inside, leave)


def by_other(lock, inside, leave):
    lock.acquire()
    with Other(lock):
        inside.set()
        leave.wait()
    lock.release()


def stale_section(lock, inside, leave):
    """Leaves the object, whose generator has ended, then holds the lock by hand."""
    with section(lock):
        pass
    by_acquire(lock, inside, leave)


def stale_then_elsewhere(lock, inside, leave):
    """Leaves the `with`, so that its slots are stale, then holds the lock without one."""
    with lock:
        pass
    lock.acquire()
    inside.set()
    leave.wait()
    lock.release()


def take_with(lock):
    with lock:
        pass


def take_acquire(lock):
    lock.acquire()
    lock.release()


def take_timed(lock):
    if lock.acquire(timeout=30):
        lock.release()


def take_bound(lock):
    acquire, release = lock.acquire, lock.release
    del lock
    acquire()
    release()


TAKES = [take_with, take_acquire, take_timed, take_bound]


def plain_locks():
    for hold in with_body, deep_below, through_c, in_handler, in_generator:
        for take in TAKES:
            hold_and_wait(threading.Lock(), hold, take, True, "with")
    for hold in by_exit_stack, by_stacked_section, by_callback, while_entering_more:
        hold_and_wait(threading.Lock(), hold, take_timed, True, "with")
    for hold in by_section, by_nested, by_guard, by_condition:
        for take in TAKES:
            hold_and_wait(threading.Lock(), hold, take, True, "with")
    for hold in by_method, by_other, stale_section, left_exit_stack:
        hold_and_wait(threading.Lock(), hold, take_with, False, "")
    for hold in by_acquire, stale_then_elsewhere:
        for take in TAKES:
            hold_and_wait(threading.Lock(), hold, take, False, "")


def recursive_locks():
    for hold in with_body, deep_below, by_acquire:
        for take in TAKES:
            hold_and_wait(threading.RLock(), hold, take, True, "owner")


def a_stale_slot_is_no_holder():
    """A thread that was in the `with` and left it must not be taken for the one inside, even when
    its stale slot points to the very object that the holder's live slot points to."""
    lock = threading.Lock()
    for _ in range(20):
        parked, go = threading.Event(), threading.Event()

        def was_inside():
            with lock:
                pass
            parked.set()
            go.wait()

        stale = [probe.start(was_inside) for _ in range(3)]
        assert parked.wait(20)
        hold_and_wait(lock, with_body, take_with, True, "with")
        go.set()
        for thread in stale:
            thread.join(20)


def many_waiters():
    lock = threading.Lock()
    inside, leave = threading.Event(), threading.Event()
    holder = probe.start(with_body, lock, inside, leave)
    assert inside.wait(20)
    waiters = [probe.start(take_with, lock) for _ in range(8)]
    for waiter in waiters:
        probe.until(lambda: probe.waiting(waiter.native_id), "waiters")
    for waiter in waiters:
        assert holder_of(waiter.native_id).startswith("%d with" % holder.native_id)
    leave.set()


def a_condition_names_nobody():
    event = threading.Event()
    waiter = probe.start(event.wait)
    probe.until(lambda: probe.waiting(waiter.native_id), "event")
    assert holder_of(waiter.native_id) == "none"
    sleeper = probe.start(time.sleep, 5)
    probe.until(lambda: sleeper.native_id, "sleeper")
    time.sleep(0.05)
    assert holder_of(sleeper.native_id) == "not waiting"
    event.set()


class Worker(threading.Thread):
    """Attributes of its own, and a `join` around the one that waits."""

    def __init__(self, leave):
        super().__init__(daemon=True)
        self.numbers, self.big, self.negative, self.leave = list(range(200)), 1 << 80, -5, leave

    def run(self):
        self.leave.wait()

    def join(self, timeout=None):
        super().join(timeout)


def joined_thread():
    leave = threading.Event()
    joined = [probe.start(leave.wait), Worker(leave)]
    joined[1].start()
    bystander = probe.start(leave.wait)
    for thread in joined:
        for words in (), (20,):
            waiter = probe.start(thread.join, *words)
            probe.until(lambda: probe.waiting(waiter.native_id), "join")
            wanted = "%d joined %d" % (thread.native_id, id(thread))
            probe.until(lambda: holder_of(waiter.native_id) == wanted, wanted)
    leave.set()
    bystander.join(20)


def main():
    probe.attach()
    the_gil()
    plain_locks()
    recursive_locks()
    a_stale_slot_is_no_holder()
    many_waiters()
    a_condition_names_nobody()
    joined_thread()
    print("GIL and lock holders as expected")
    sys.stdout.flush()


main()
