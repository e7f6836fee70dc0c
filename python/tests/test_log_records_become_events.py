"""`dashcam.LogHandler`: log records are events of the black box, and logging never harms its
caller.
"""

from __future__ import annotations

import json
from typing import Any

from conftest import Bench

PROGRAM = """
import logging, logging.config, sys, threading
import dashcam
dashcam.start()
logging.config.dictConfig({"version": 1,
    "handlers": {"box": {"class": "dashcam.LogHandler", "level": "INFO"}},
    "root": {"handlers": ["box"], "level": "DEBUG"}})
handler = logging.getLogger().handlers[0]
shop = logging.getLogger("shop.cart")
with dashcam.request("GET /cart"):
    shop.warning("item %d is gone", 7)
    try:
        1 / 0
    except ZeroDivisionError:
        shop.exception("cannot pay")
shop.debug("below the level")
shop.error("ü" * 300)
shop.error("lone \\udc80")

class Chatty:
    def __str__(self):
        shop.warning("from inside")
        return "chatty"
shop.warning("I am %s", Chatty())

class Bad:
    def __str__(self):
        raise KeyError("bad")
shop.warning("I am %s", Bad())
shop.warning("%d apples", "no")
assert handler.failed == 2, handler.failed

# Who holds the handler's lock keeps nobody waiting.
def log():
    shop.info("from a thread")
handler.acquire()
thread = threading.Thread(target=log)
thread.start()
thread.join(20)
assert not thread.is_alive()
handler.release()
print(dashcam.snap())
"""


def events(bench: Bench, capture: str) -> "list[dict[str, Any]]":
    made = bench.dashcam("export", capture, "--to", "chrome", "-o", "trace.json")
    assert made.returncode == 0, made.stderr
    shown = json.loads((bench.folder / "trace.json").read_text(encoding="utf-8"))
    found = [e for e in shown["traceEvents"] if e["name"] == "shop.cart" and e["cat"] == "event"]
    return sorted(found, key=lambda e: float(e["ts"]))


def test_records_become_events(bench: Bench) -> None:
    done = bench.python(PROGRAM, DASHCAM_OUT=str(bench.folder))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found = events(bench, done.stdout.strip())
    said = [e["args"] for e in found]
    assert [a["message"] for a in said] == [
        "item 7 is gone", "cannot pay", "ü" * 256, "lone ?", "I am chatty",
        "not readable (KeyError): I am %s", "not readable (TypeError): %d apples", "from a thread"]
    assert said[0]["level"] == "WARNING"
    assert said[1]["error"] == "ZeroDivisionError"
    assert "error" not in said[0]
    requests = [a.get("request id") for a in said]
    assert requests[0] == requests[1] and requests[0], "they belong to their request"
    assert requests[2:] == [None] * 6


def test_before_start_and_after_stop_nothing_happens(bench: Bench) -> None:
    done = bench.python("""
        import logging, dashcam
        log = logging.getLogger("early")
        log.addHandler(dashcam.LogHandler())
        log.error("one")
        dashcam.start()
        dashcam.stop()
        log.error("two")
    """, DASHCAM_OUT=str(bench.folder))
    assert done.returncode == 0, done.stderr
