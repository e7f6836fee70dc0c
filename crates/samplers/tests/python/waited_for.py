"""Which object a blocked thread waits for: all who wait for the same are told the same."""

import ctypes
import queue
import sys
import threading

import probe

probe.lib.probe_waited_for.restype = ctypes.c_uint64


def reported(thread):
    return probe.lib.probe_waited_for(ctypes.c_uint32(thread.native_id))


def all_wait_for(wanted, waits, *arguments):
    """Two threads in `waits(*arguments)`; they may wait for something else on their way there."""
    threads = [probe.start(waits, *arguments) for _ in range(2)]
    for thread in threads:
        probe.until(lambda: reported(thread) == id(wanted), waits.__name__ + " " + type(wanted).__name__)
    return threads


def get(source):
    source.get()


def get_soon(source):
    try:
        source.get(timeout=60)
    except queue.Empty:
        pass


def put(target):
    target.put(1)


def enter(lock):
    with lock:
        pass


def main():
    probe.attach()
    threads = []

    for wait in (get, get_soon):
        empty = queue.Queue()
        threads += all_wait_for(empty, wait, empty)
        for _ in range(2):
            empty.put(None)
    full = queue.PriorityQueue(1)
    full.put(1)
    threads += all_wait_for(full, put, full)
    for _ in range(2):
        full.get()
    simple = queue.SimpleQueue()
    threads += all_wait_for(simple, get, simple)
    for _ in range(2):
        simple.put(None)

    for lock in (threading.Lock(), threading.RLock()):
        with lock:
            threads += all_wait_for(lock, enter, lock)
    semaphore = threading.Semaphore(0)
    threads += all_wait_for(semaphore, enter, semaphore)
    semaphore.release()
    event = threading.Event()
    threads += all_wait_for(event, event.wait)
    event.set()
    condition = threading.Condition()

    def notified():
        with condition:
            condition.wait(60)

    threads += all_wait_for(condition, notified)
    with condition:
        condition.notify_all()
    barrier = threading.Barrier(3)
    threads += all_wait_for(barrier, barrier.wait)
    barrier.wait(20)

    # Who waits for nothing is told nothing.
    assert reported(threading.current_thread()) == 0

    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), thread
    print("waits are told by their objects")
    sys.stdout.flush()


main()
