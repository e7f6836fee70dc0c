"""A service with many causes to diagnose: a lock that is held, pauses at regular times, work for
the CPU on four threads, metrics, collections. Saves one capture at its end and prints its path."""

import gc
import threading
import time

import dashcam

lock = threading.Lock()
together = threading.Barrier(4)


def backoff():
    time.sleep(0.12)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def hold():
    with lock:
        time.sleep(0.1)


def checkout(i):
    tier = "gold" if i % 2 else "free"
    with dashcam.request("GET /checkout", user=i, tier=tier, vip=bool(i % 2), ratio=0.5):
        with dashcam.span("price", rows=i):
            burn(0.003)
        dashcam.event("cache.miss", key=f"k{i}")
        if i % 10 == 9:
            backoff()


def report(i):
    with dashcam.request("GET /report"):
        if i % 8 == 0:
            hold()
        else:
            with lock:
                burn(0.002)


def many(work):
    # Four at once, for longer than a thread may keep the GIL: the others wait for it, however fast
    # or quiet the machine is.
    together.wait()
    burn(0.05)
    for i in range(40):
        work(i)
        dashcam.count("orders", tags={"shop": "eu"})
        dashcam.timing("cart", 3.5)
        dashcam.gauge("queue", i)
        dashcam.set("users", f"u{i}")


def main():
    work = {"checkout-1": checkout, "checkout-2": checkout, "report-1": report, "report-2": report}
    threads = [threading.Thread(target=many, args=(w,), name=name) for name, w in work.items()]
    for thread in threads:
        thread.start()
    gc.collect()
    for thread in threads:
        thread.join()
    print(dashcam.snap("something to ask about"))


main()
