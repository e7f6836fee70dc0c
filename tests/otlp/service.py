"""A small service for the OTLP tests: requests that are quick, slow or failed; in children too.

Prints what dashcam's status reports about the exporter, one JSON for each process, in one list.
"""

from __future__ import annotations

import json
import os
import sys
import time

import dashcam

SLOW_S = 0.06


def work(name: str, slow: bool, fails: bool) -> None:
    """A request with two spans, an event and, if asked for, an exception."""
    try:
        with dashcam.request(name, user=42):
            with dashcam.span("db.query", rows=3, cached=False, share=0.5, table="orders"):
                dashcam.event("cache.miss", key="k1")
                with dashcam.span("db.fetch"):
                    time.sleep(SLOW_S if slow else 0)
            if fails:
                raise ValueError("no such order")
    except ValueError:
        pass


def reported() -> dict:
    """The exporter's counts for the spans recorded here; only the id if there is no exporter."""
    said = dashcam.status()["otlp"]
    return ({} if said == "off" else said) | {"pid": os.getpid()}


def some(tag: str, quick: int) -> dict:
    """Requests, metrics; returns the exporter's counts for them."""
    for i in range(quick):
        work(f"GET /quick/{tag}", slow=False, fails=False)
        if i % 10 == 0:
            work(f"GET /slow/{tag}", slow=True, fails=False)
        if i % 20 == 0:
            work(f"GET /failed/{tag}", slow=False, fails=True)
        dashcam.counter("orders", tags={"shop": tag}).inc(2)
    dashcam.gauge("depth", 7.5)
    dashcam.timing("price", 12.5)
    dashcam.timing("price", 600)
    dashcam.flush()
    return reported()


def child(tag: str, quick: int) -> tuple[int, int]:
    """The same in a forked child; where it reports, and its id."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(some(tag, quick)).encode())
        dashcam.stop()
        os._exit(0)
    os.close(write)
    return read, pid


def main() -> None:
    """service.py REQUESTS CHILDREN CAPTURE"""
    quick, children, capture = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dashcam.start()
    all_reported = [some("parent", quick)]
    for number in range(children):
        read, pid = child(f"child{number}", quick)
        with os.fdopen(read) as pipe:
            all_reported.append(json.loads(pipe.read()))
        os.waitpid(pid, 0)
    if capture != "-":
        os.rename(dashcam.snap("to compare"), capture)
    if children:
        dashcam.flush()
        all_reported[0] = reported()
    print(json.dumps(all_reported))


if __name__ == "__main__":
    main()
