"""A service with a bit of everything, recorded for the page's tests: spans in spans, attributes,
events, a lock that one thread holds for long, work on a pool, collections, an error; and names that
a careless page would run as markup or script.

Run under `dashcam run`; ends by itself after about three seconds.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dashcam

HOSTILE = "<script>alert(1)</script>"
ENDING = "</script><img src=x onerror=alert(2)>"
MARK = "<!--dashcam:data-->"
LOCK = threading.Lock()
POOL = ThreadPoolExecutor(1, "pool</script>")


def linger() -> None:
    """Holds the lock while it sleeps."""
    with LOCK:
        time.sleep(0.4)


def fold(items: int) -> int:
    """Computes."""
    return sum(i * i % 7 for i in range(items))


def handle(number: int, slow: bool) -> None:
    """One request: spans in spans, an event, attributes; the slow ones wait for the lock."""
    with dashcam.request("GET /items", user=number, note=ENDING):
        with dashcam.span("read", rows=3, query=HOSTILE):
            with dashcam.span(HOSTILE):
                fold(2000)
            dashcam.event("cache.miss", key="'\"><b>")
        if slow:
            with LOCK:
                fold(100)
        POOL.submit(fold, 3000).result()


def fail() -> None:
    """A request that ends by an error."""
    with dashcam.request(ENDING):
        with dashcam.span(MARK):
            raise ValueError("as intended")


def main() -> None:
    """Fast requests, then a lock that is held, then fast requests."""
    for number in range(120):
        handle(number, False)
        time.sleep(0.002)
    for _ in range(2):
        holder = threading.Thread(target=linger, name="holder & co")
        holder.start()
        time.sleep(0.02)
        slow = [threading.Thread(target=handle, args=(900 + i, True), name=f"worker {i}") for i in range(3)]
        for thread in slow:
            thread.start()
        for thread in slow:
            thread.join()
        holder.join()
        gc.collect()
    try:
        fail()
    except ValueError:
        pass
    for number in range(60):
        handle(number, False)
        time.sleep(0.005)
    path = dashcam.snap("</script><script>alert(3)</script>")
    print(path, file=sys.stderr)
    time.sleep(1.0)


if __name__ == "__main__":
    main()
