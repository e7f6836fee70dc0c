"""A thread that burns one second of CPU and sleeps one, inside of a request. Prints its own
measurements.
"""

import json
import sys
import threading
import time

import dashcam

measured = {}


def busy(seconds):
    end = time.thread_time() + seconds
    count = 0
    while time.thread_time() < end:
        count += 1
    return count


def nap(seconds):
    time.sleep(seconds)


def section(name, work):
    wall, cpu = time.monotonic(), time.thread_time()
    work(1.0)
    measured[name] = {"wall": time.monotonic() - wall, "cpu": time.thread_time() - cpu}


def work():
    # A name that ends lines, frames, strings and scripts in any format that does not escape it.
    with dashcam.request('GET /work"</script><script>\n;', trace_id="4bf92f3577b34da6", rows=-3):
        with dashcam.span("burn"):
            section("busy", busy)
        with dashcam.span("nap"):
            section("nap", nap)


thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
measured["capture"] = str(dashcam.snap("export test"))
json.dump(measured, sys.stdout)
